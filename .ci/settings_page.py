"""The reference page docs/reference/settings.md, in Markdown, from the fields of `Settings`;
printed when run."""

from __future__ import annotations

import sys

from pydantic.fields import FieldInfo

from scaler.settings import CONFIG_VARIABLE, PREFIX, Settings, default_text, flag, unit

_PAGE = f"""# Settings of `scaler run`

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
"""


def reference() -> str:
    return _PAGE + "".join(_row(name, field) for name, field in Settings.model_fields.items())


def _row(name: str, field: FieldInfo) -> str:
    cells = (
        f"`{name}`",
        f"`{flag(name)}`",
        f"`{PREFIX}{name.upper()}`",
        unit(field) or "-",
        default_text(field),
    )
    return f"| {' | '.join(cells)} | {field.description} |\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
