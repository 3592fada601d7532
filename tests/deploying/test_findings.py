"""What is wrong with a short file is said with line and column, before anything is sent."""

from __future__ import annotations

import pytest

from scaler.tools.common.short_file.service import ConfigError, read_service
from scaler.tools.common.short_file.source import MAX_BYTES

STORM = """\
app_name: a
storm_service:
  model_name: m
  model_path: /m
  prefill: {replicas: 2, image: "i:1"}
  decode: {image: "i:1"}
"""
OME = """\
app_name: a
inference_service:
  model_name: m
  engine:
    image: i:1
"""
MOTOR = """\
app_name: a
platform: mindie-motor
ratios: [1P1D]
motor_service:
  image: i:1
  model_path: /m
  prefill: {}
  decode: {}
"""


def said(text: str | bytes, framework: str | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        read_service(text, framework=framework)
    return str(error.value)


BAD: dict[str, tuple[str, str]] = {
    "nothing": ("", "1:1: there is nothing in it"),
    "comments only": ("# nothing\n", "1:1: there is nothing in it"),
    "a list": ("- a\n", "1:1: keys and values are needed here"),
    "a text": ("hello\n", "1:1: keys and values are needed here"),
    "two documents": (f"{OME}---\n{OME}", "7:1: a second document begins here"),
    "a tab": ("app_name: a\n\tb: c\n", "2:1: not YAML: found a tab character"),
    "an open quote": ('app_name: "a\n', "not YAML"),
    "a full-width colon": ("app_name： a\nb: c\n", "full-width punctuation"),
    "a name twice": (
        f"app_name: b\n{OME}",
        "2:1: app_name: the same name a second time; delete one of them",
    ),
    "deep nesting": ("a: " + "[" * 5000, "1:103: nested more than 100 deep"),
    "an anchor in itself": (f"{OME}x: &x [*x]\n", "6:4: x.0: it contains itself"),
    "a list as a name": (f"{OME}? [a]\n: b\n", "6:3: a name is needed here"),
    "a merge of a text": (
        f"{OME}    <<: text\n",
        "inference_service.engine.<<: only a mapping can be merged",
    ),
    "an unknown key": (
        f"{OME}    replica: 2\n",
        "6:5: inference_service.engine.replica: is not known here",
    ),
    "the nearest key": (f"{OME}    min_replica: 2\n", "; did you mean min_replicas?"),
    "the nearest section": (
        "app_name: a\ninferenceservice: {}\n",
        "2:1: inferenceservice: is not known here; did you mean inf",
    ),
    "no section": ("app_name: a\n", "1:1: no section says what to deploy"),
    "no name": (OME.split("\n", 1)[1], "1:1: app_name: is missing; add app_name: ..."),
    "a name with capitals": (
        OME.replace("app_name: a", "app_name: Chat_1"),
        "1:1: app_name: Kubernetes refuses the",
    ),
    "a name of digits": (
        OME.replace("app_name: a", "app_name: 1a"),
        '1:1: app_name: Kubernetes refuses the name "1a"',
    ),
    "a name too long for what is made": (
        STORM.replace("app_name: a", "app_name: " + "a" * 60),
        "1:1: app_name: it makes the name " + "a" * 60 + "-prefill-0",
    ),
    "a bad namespace": (
        f"{OME}app_namespace: a.b\n",
        '6:1: app_namespace: Kubernetes refuses the name "a.b"',
    ),
    "a missing section": (OME, "1:1: storm_service is missing; aibrix, which SERVING_FRAMEWORK"),
    "a number as words": (
        f"{OME}    tp_size: eight\n",
        "6:5: inference_service.engine.tp_size: a whole number is needed",
    ),
    "a fraction": (f"{OME}    npu_num: 1.5\n", "a whole number is needed here, found 1.5"),
    "a truth value as a number": (
        f"{OME}    npu_num: true\n",
        "a whole number is needed here, found true",
    ),
    "zero replicas": (
        f"{OME}    min_replicas: 0\n",
        "6:5: inference_service.engine.min_replicas: 0 is less than 1",
    ),
    "too many replicas": (f"{OME}    min_replicas: 65\n", "65 is more than 64"),
    "a huge number": (f"{OME}    min_replicas: {'9' * 5000}\n", "a whole number is needed here"),
    "fewer at most than at least": (
        f"{OME}    min_replicas: 3\n    max_replicas: 2\n",
        "7:5: inference_service.engine.max_replicas: 2 is less than min",
    ),
    "NPUs that no node has": (
        f"{OME}    npu_num: 17\n",
        "6:5: inference_service.engine.npu_num: 17 is more than 16",
    ),
    "NPUs that such a node has not": (
        f"{OME}    npu_num: 16\n    node_selector: {{accelerator-type: module-910b-8}}\n",
        (
            "6:5: inference_service.engine.npu_num: a node of module-910b-8 has 8 NPUs, and a pod"
            " asks for 16"
        ),
    ),
    "more ranks than NPUs": (
        f"{OME}    tp_size: 16\n",
        "6:5: inference_service.engine.tp_size: 16 ranks (tp_size x pp_size)",
    ),
    "an image without a tag": (
        OME.replace("i:1", "sglang"),
        '5:5: inference_service.engine.image: "sglang" has no tag',
    ),
    "an image without a tag in a registry with a port": (
        OME.replace("i:1", "registry:5000/sglang"),
        '"registry:5000/sglang" has no tag; write registry:5000/sglang:TAG',
    ),
    "a number with a 0 in front": (
        f"{OME}    min_replicas: 010\n",
        (
            "6:5: inference_service.engine.min_replicas: YAML reads 010 as 8; write it without the"
            " 0 in front"
        ),
    ),
    "on without quotes": (
        f"{OME}    labels: {{pod-rescheduling: on}}\n",
        (
            "6:14: inference_service.engine.labels.pod-rescheduling: YAML reads on as True; write"
            " it in quotes"
        ),
    ),
    "an octal number": (
        f"{OME}    env_vars: {{MODE: 0644}}\n",
        "YAML reads 0644 as 420; write it in quotes",
    ),
    "a label without a value": (
        f"{OME}    labels: {{a: }}\n",
        'has no value; write "" for an empty text',
    ),
    "a label that Kubernetes refuses": (
        f"{OME}    labels: {{a: b c}}\n",
        '"b c" cannot be the value of a label',
    ),
    "a label's name that it refuses": (
        f"{OME}    labels: {{a b: c}}\n",
        "6:14: inference_service.engine.labels.a b: Kubernetes refuses",
    ),
    "a variable that it refuses": (
        f"{OME}    env_vars: {{1A: c}}\n",
        "Kubernetes refuses this name of an environment variable",
    ),
    "a list for a text": (
        f"{OME}    labels: {{a: [b]}}\n",
        "labels.a: a text is needed here, found a list",
    ),
    "a decoder without a store": (
        f"{OME}  decoder: {{}}\n",
        "1:1: mf_store is missing; prefill and decode need it",
    ),
    "a store without an image": (f"{OME}mf_store: {{}}\n", "6:1: mf_store.image: is missing"),
    "a quantity": (
        f"{OME}mf_store: {{image: a, resources: {{limits: {{cpu: 1 core}}}}}}\n",
        '"1 core" is no quantity',
    ),
    "a path": (
        STORM.replace("/m", "models"),
        '4:3: storm_service.model_path: "models" is no absolute path',
    ),
    "no decode": (
        STORM.replace('  decode: {image: "i:1"}\n', ""),
        "2:1: storm_service.decode: is missing",
    ),
    "ports for each rank without routing": (
        f"{STORM}  distributed_dp: 'true'\n",
        "7:3: storm_service.distributed_dp: this needs routing",
    ),
    "another word for true": (
        f"{STORM}  distributed_dp: yes\n",
        '"true" or "false" is needed here, found yes',
    ),
    "ranks that cannot be shared out": (
        STORM.replace("{image", "{podGroupSize: 2, dp_size: 3, image"),
        "3 ranks cannot be shared out evenly over the 2 pods",
    ),
    "an unknown platform": (
        f"{OME}platform: omee\n",
        "6:1: platform: platform 'omee' is not known; write one of ome,",
    ),
    "a ratio that is none": (
        f"{STORM}ratios: [2P1D, some]\n",
        '7:16: ratios.1: "some" is no ratio; write 2P1D or',
    ),
    "ratios that rise": (
        f"{STORM}ratios: [1P1D, 2P1D]\n",
        '7:16: ratios.1.prefill: 2 instances of "prefill", but the ratio',
    ),
    "a ratio larger than the service": (
        f"{STORM}ratios: [3P1D]\n",
        "7:10: ratios.0.prefill: 3 instances, and the service has 2",
    ),
    "a group that is none": (
        f"{STORM}ratios: [{{prefill: 1, decode: 1, x: 1}}]\n",
        "7:34: ratios.0.x: is no group of this service",
    ),
    "a group left out": (
        f"{STORM}ratios: [{{prefill: 1}}]\n",
        "ratios.0: decode is missing; add decode: 0 if none is to run",
    ),
    "only zeros": (f"{STORM}ratios: [0P0D]\n", "ratios: every group_num is 0"),
    "no ratio": (
        f"{STORM}ratios: []\n",
        "7:1: ratios: is empty; write at least one, or leave it out",
    ),
    "too many ratios": (f"{STORM}ratios: [{'1P1D, ' * 1001}]\n", "more than 1,000 entries"),
    "pods that wait for all": (
        f"{OME}    annotations: {{huawei.com/schedule_minAvailable: 2}}\nratios: [1]\n",
        "with ratios each instance starts by itself",
    ),
    "Motor without ratios": (MOTOR.replace("ratios: [1P1D]\n", ""), "1:1: ratios is missing"),
    "hardware nobody has": (
        f"{MOTOR}  hardware: A9\n",
        "9:3: motor_service.hardware: \"A9\" is not known here; write '800I_A2' or",
    ),
    "a node port that is none": (
        f"{MOTOR}  node_port: 80\n",
        "9:3: motor_service.node_port: 80 is no node port",
    ),
    "more NPUs than the hardware": (
        MOTOR.replace("decode: {}", "decode: {npu_num: 16}"),
        "a node of 800I_A2 has 8 NPUs",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_named_with_its_place(name: str) -> None:
    text, expected = BAD[name]
    assert expected in said(text, "aibrix" if name == "a missing section" else None)


@pytest.mark.parametrize(
    "image", ["registry:5000/sglang:1", f"sglang@sha256:{'0' * 64}", "registry:5000/a/b:v1.2"]
)
def test_an_image_with_a_tag_or_digest_is_taken_as_it_stands(image: str) -> None:
    assert any(
        image in str(made) for made in read_service(OME.replace("i:1", f'"{image}"')).objects
    )


def test_the_unchanged_texts_are_right() -> None:
    assert [read_service(text).platform for text in (STORM, OME, MOTOR)] == [
        "aibrix",
        "ome",
        "mindie-motor",
    ]


def test_what_is_no_utf_8_is_shown_where_it_stands() -> None:
    assert (
        said(b"app_name: a\nx: caf\xe9\n") == "2:7: here is no UTF-8 text; save the file as UTF-8"
    )


def test_half_of_a_character_is_no_text() -> None:
    assert "here is no UTF-8 text" in said("app_name: a\ud800\n")


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert f"more than {MAX_BYTES:,}" in said(OME + "#" * MAX_BYTES)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert read_service(b"\xef\xbb\xbf" + OME.encode()).name == "a"


def test_all_mistakes_are_told_at_once_in_the_order_of_the_text() -> None:
    lines = said(f"{OME}    a: 1\n    npu_num: x\n  b: 2\nc: 3\n").splitlines()
    assert [line.split(":")[0] for line in lines] == ["6", "7", "8", "9"]


def test_a_platform_that_is_not_the_frameworks_is_refused() -> None:
    assert "platform: aibrix is not ome, which SERVING_FRAMEWORK says; unset it" in said(
        f"{STORM}platform: aibrix\n", "ome"
    )


def test_an_unknown_framework_is_refused() -> None:
    assert "platform 'kserve', which SERVING_FRAMEWORK says, is not known" in said(OME, "kserve")


def test_a_framework_without_its_section_is_named_as_what_asks_for_it() -> None:
    assert "inference_service is missing; ome, which SERVING_FRAMEWORK says, needs" in said(
        STORM, "ome"
    )
    assert "inference_service is missing; ome needs this section" in said(f"{STORM}platform: ome\n")


def test_two_sections_need_a_platform() -> None:
    both = OME + STORM.split("\n", 1)[1]
    assert said(both) == "1:1: this describes a service for ome and for aibrix; add platform: ..."


def test_merges_that_grow_end_soon() -> None:
    bomb = "a0: &a0 {" + ", ".join(f"k{number}: v" for number in range(900)) + "}\n"
    bomb += "".join(f"a{number}: {{<<: *a0}}\n" for number in range(1, 900))
    assert "too much is nested or merged here" in said(bomb)


def test_anchors_that_double_end_soon() -> None:
    laughs = "a0: &a0 [x]\n" + "".join(
        f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}, *a{n}]\n" for n in range(60)
    )
    assert "1:1: a0: is not known here" in said(f"{laughs}{OME}")


def test_merges_hidden_in_names_end_soon() -> None:
    chain = "? &a0 {x: y}\n: 1\n" + "".join(
        f"? &a{n} {{<<: *a{n - 1}}}\n: 1\n" for n in range(1, 900)
    )
    assert "a name is needed here" in said(f"z: 1\n{chain}w: *a899\n")


def test_anchors_and_merges_of_yaml_are_understood() -> None:
    text = STORM.replace("prefill: {", "prefill: &one {").replace(
        'decode: {image: "i:1"}', "decode: {<<: *one, replicas: 1}"
    )
    roles = read_service(text).objects[0]["spec"]["template"]["spec"]["roles"]
    assert [role["replicas"] for role in roles] == [2, 1]
