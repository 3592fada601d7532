"""The picture is well-formed XML whatever the names are, and shows every instance, target and
event."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.sim.stories.instances import Condition, InstanceView
from scaler.sim.stories.timeline import LoadSample, Moment, MomentKind, Sample, Timeline
from scaler.tools.simulate import overview
from scaler.tools.simulate.overview import MANY
from scaler.tools.simulate.picture import draw

SVG = "{http://www.w3.org/2000/svg}"


def timeline(text: str) -> Timeline:
    made = Timeline()
    made.end = 100.0
    view = InstanceView(text, text, Condition.STARTING)
    made.add(text, Sample(0.0, (view,), target={text: 1}))
    made.add(
        text,
        Sample(
            10.0, (InstanceView(text, text, Condition.RUNNING),), target={text: 1}, complete=True
        ),
    )
    made.say(Moment(50.0, MomentKind.EVENT, text))
    return made


def parsed(made: Timeline, title: str) -> ElementTree.Element:
    return ElementTree.fromstring(draw(made, title))  # noqa: S314 - our own text


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=20))
def test_any_text_makes_well_formed_xml(text: str) -> None:
    root = parsed(timeline(text), text)
    assert root.tag == f"{SVG}svg"


def test_it_shows_steps_target_lanes_and_events() -> None:
    root = parsed(timeline("p0"), "title")
    classes = [element.get("class") for element in root.iter()]
    assert classes.count("edge") == 1
    assert classes.count("target") == 2  # the line and its legend
    assert classes.count("event") == 1
    assert [e.text for e in root.iter(f"{SVG}title")] == [
        "p0: starting 0 s to 10 s",
        "p0: running 10 s to 100 s",
    ]


def test_a_band_shows_when_the_service_serves_and_groups_have_the_names_of_their_roles() -> None:
    made = Timeline()
    made.end = 100.0
    for at, condition in (
        (0.0, Condition.EMPTY),
        (20.0, Condition.RUNNING),
        (40.0, Condition.BROKEN),
        (90.0, Condition.RUNNING),
    ):
        view = InstanceView("p0", "group0", condition, role="prefill")
        made.add("a/r/j", Sample(at, (view,), smallest={"group0": 1}))
    root = parsed(made, "title")
    titles = [str(element.text) for element in root.iter(f"{SVG}title")]
    assert [words for words in titles if "serving" in words] == [
        "not serving 0 s to 20 s",
        "serving 20 s to 40 s",
        "not serving 40 s to 90 s",
        "serving 90 s to 100 s",
    ]
    assert {"serving", "50 s", "prefill (group0)"} <= {e.text for e in root.iter(f"{SVG}text")}


def test_an_empty_timeline_is_a_picture_too() -> None:
    assert parsed(Timeline(), "nothing").tag == f"{SVG}svg"


def test_many_services_are_one_chart_and_a_lane_each() -> None:
    made = Timeline()
    made.end = 100.0
    for number in range(MANY):
        for at, condition in (
            (0.0, Condition.EMPTY),
            (10.0, Condition.WAITING),
            (20.0, Condition.RUNNING),
        ):
            view = InstanceView("p0", "g", condition, () if at < 20 else ("n",))
            made.add(f"chat-{number}/r/j", Sample(at, (view,), smallest={"g": 1 if number else 2}))
    root = ElementTree.fromstring(overview.draw(made, "many"))  # noqa: S314 - our own text
    assert "5 of 6" in [element.text for element in root.iter(f"{SVG}text")]
    classes = [element.get("class") for element in root.iter()]
    assert classes.count("edge") == 1
    lanes = [str(element.text).partition(": ") for element in root.iter(f"{SVG}title")]
    assert [what for name, _, what in lanes if name == "chat-1/r/j"] == [
        "empty 0 s to 10 s",
        "waiting 10 s to 20 s",
        "smallest 20 s to 100 s",
    ]
    assert lanes[2][2] == "starting 20 s to 100 s"


def test_who_is_gone_has_no_lane_any_more() -> None:
    made = Timeline()
    made.end = 100.0
    for number in range(MANY):
        made.add(f"chat-{number}/r/j", Sample(0.0, (InstanceView("p0", "g", Condition.EMPTY),)))
    made.add("chat-0/r/j", Sample(40.0))
    root = ElementTree.fromstring(overview.draw(made, "many"))  # noqa: S314 - our own text
    assert (
        next(element.text for element in root.iter(f"{SVG}title"))
        == "chat-0/r/j: empty 0 s to 40 s"
    )


def test_events_that_come_too_fast_for_their_marks_share_one() -> None:
    made = timeline("p0")
    for at in (50.5, 51.0, 52.0, 80.0):
        made.say(Moment(at, MomentKind.EVENT, f"event {at}"))
    root = parsed(made, "title")
    assert [element.get("class") for element in root.iter()].count("event") == 2
    words = [str(element.text) for element in root.iter(f"{SVG}text")]
    assert "p0; event 50.5; event 51.0; and 1 more, until 52 s" in words
    assert words[-1] == "event 80.0"


def test_a_long_title_goes_on_in_the_next_line() -> None:
    short = parsed(timeline("p0"), "title")
    long = parsed(timeline("p0"), "many words " * 15)
    titles = [
        str(element.text) for element in long.iter(f"{SVG}text") if element.get("class") == "title"
    ]
    assert " ".join(titles) == ("many words " * 15).strip()
    assert max(map(len, titles)) < 100
    assert int(str(long.get("height"))) == int(str(short.get("height"))) + 22


def test_few_services_are_drawn_instance_by_instance() -> None:
    assert overview.draw(timeline("p0"), "few") == draw(timeline("p0"), "few")


def test_a_load_is_drawn_with_what_can_be_served_who_waits_and_what_is_lost() -> None:
    made = timeline("p0")
    amounts = dict.fromkeys(
        ("prefill_busy", "decode_busy", "decode_queue", "wait", "decoding", "served"), 0.0
    )
    made.loads["p0"] = [
        LoadSample(
            at=at,
            end=at + 50,
            rate=2.0,
            able=1.0,
            prefill=1,
            decode=1,
            npus=8,
            prefill_queue=at,
            lost=at,
            arrived=1234.0,
            **amounts,
        )
        for at in (0.0, 50.0)
    ]
    for draw_one in (draw, lambda made, title: overview.Overview(made, title).text()):
        root = ElementTree.fromstring(draw_one(made, "title"))  # noqa: S314 - our own text
        words = {str(element.text) for element in root.iter(f"{SVG}text")}
        assert {"requests per second", "requests waiting", "lost, of 1,234"} <= words
        areas = [element.get("class") for element in root.iter(f"{SVG}polygon")]
        assert areas[-2:] == ["waiting", "broken"]


def test_where_instances_come_and_go_all_day_only_their_number_is_drawn() -> None:
    made = Timeline()
    made.end = 100.0
    for number in range(60):
        view = InstanceView(
            f"p{number}", "g", Condition.RUNNING, ("n",) if number % 10 == 0 else ()
        )
        made.add("a/r/j", Sample(float(number), (view,)))
    few = ElementTree.fromstring(draw(made, "title"))  # noqa: S314 - our own text
    assert {str(e.text).partition(":")[0] for e in few.iter(f"{SVG}title")} == {
        f"p{n}" for n in range(0, 60, 10)
    }
