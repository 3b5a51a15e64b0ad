"""The page of the environments names every setting with its default."""

from __future__ import annotations

import re
from pathlib import Path

from bottega.service.environments.settings import EnvironmentSettings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "environments.md"


def test_the_table_of_settings_is_complete() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| *`?([^|`]*?)`? *\|", PAGE.read_text().partition("## verifiers")[0], re.MULTILINE))
    told = {name: str(value).lower().removesuffix(".0") for name, value in EnvironmentSettings().model_dump().items()}
    assert rows == {name: "" if value == "none" else value for name, value in told.items()}
