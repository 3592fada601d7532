"""The reference page docs/reference/settings.md and the same in Chinese, in Markdown, from the
fields of `Settings`; written when run."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic.fields import FieldInfo

from scaler.reasons.said import Language
from scaler.settings import CONFIG_VARIABLE, PREFIX, Settings, default_text, flag, unit

ROOT = Path(__file__).resolve().parent.parent
IN_CHINESE = Path(__file__).with_name("settings_zh.yaml")
PAGES: dict[Language, str] = {
    "en": "docs/reference/settings.md",
    "zh": "docs/zh/reference/settings.md",
}
HEADS: dict[Language, str] = {
    "en": f"""# Settings of `scaler run`

[中文](../zh/reference/settings.md)

Written by `make generated`; a test keeps it in step with the code.

Each setting can be given three ways; the first that is there wins: a flag, an environment variable,
a key of the YAML file named by `--config` or `{CONFIG_VARIABLE}`. Switches have a negative flag
too, as in `--no-revoke`. All problems are reported at once with where they were set, and the exit
code is 2.

```yaml
# settings.yaml
namespaces: [inference]
lease_duration: 8
log_format: text
```

Two notes for pods: set `enableServiceLinks: false`, because a Service named `scaler-http` would
make Kubernetes set `SCALER_HTTP_PORT` to something like `tcp://10.0.0.1:80`; and
`1.2 * retry_period < renew_deadline < lease_duration` must hold.

| key | flag | variable | unit | default | meaning |
|---|---|---|---|---|---|
""",
    "zh": f"""# `scaler run` 的设置

[English](../../reference/settings.md)

本页由 `make generated` 写出；有测试保证它与代码一致。

每项设置有三种给法，先有者优先：命令行参数，环境变量，YAML 文件中的键，文件由 `--config` 或
`{CONFIG_VARIABLE}` 指定。开关另有否定形式，例如 `--no-revoke`。
全部错误一次报告，并写明是在哪里设置的；退出码为 2。

```yaml
# settings.yaml
namespaces: [inference]
lease_duration: 8
log_format: text
```

对 Pod 有两点说明：请设置 `enableServiceLinks: false`，因为如果有名为 `scaler-http` 的 Service，
Kubernetes 会把 `SCALER_HTTP_PORT` 设为 `tcp://10.0.0.1:80` 之类的值；并且必须满足
`1.2 * retry_period < renew_deadline < lease_duration`。

| 键 | 命令行参数 | 环境变量 | 单位 | 默认值 | 含义 |
|---|---|---|---|---|---|
""",
}
WORDS = {"empty": "空", "restarts": "次", "port": "端口", "priority": "优先级"}
"""Of the columns unit and default; what is not here is the same in both languages."""


def reference(language: Language = "en") -> str:
    """The whole page. Raises ValueError where a setting lacks its sentence in Chinese, or a
    sentence its setting."""
    meanings = _meanings(language)
    rows = [_row(name, field, language) for name, field in Settings.model_fields.items()]
    return HEADS[language] + "".join(
        f"| {row} | {meaning} |\n" for row, meaning in zip(rows, meanings, strict=True)
    )


def _meanings(language: Language) -> list[str]:
    if language == "en":
        return [str(field.description) for field in Settings.model_fields.values()]
    sentences = yaml.safe_load(IN_CHINESE.read_text("utf-8"))
    if list(sentences) != list(Settings.model_fields):
        differ = sorted(set(sentences) ^ set(Settings.model_fields)) or "the order"
        raise ValueError(f"{IN_CHINESE.name} has not the settings of scaler/settings.py: {differ}")
    return list(sentences.values())


def _row(name: str, field: FieldInfo, language: Language) -> str:
    shown = [unit(field) or "-", default_text(field)]
    if language == "zh":
        shown = [WORDS.get(word, word) for word in shown]
    cells = (f"`{name}`", f"`{flag(name)}`", f"`{PREFIX}{name.upper()}`", *shown)
    return " | ".join(cells)


if __name__ == "__main__":
    for language, page in PAGES.items():
        (ROOT / page).write_text(reference(language), "utf-8")
