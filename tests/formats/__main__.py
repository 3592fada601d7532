"""python -m tests.formats NAME: writes what this tree keeps as NAME.json."""

from __future__ import annotations

import json
import sys

from tests.formats import FOLDER, record

text = json.dumps(record(), indent=1, sort_keys=True, ensure_ascii=False)
(FOLDER / f"{sys.argv[1]}.json").write_text(text + "\n", "utf-8")
