"""The experts that are mined together: their siblings are those of the page, and each has a plain kernel."""

from __future__ import annotations

import re

import lineages
import pytest


@pytest.mark.parametrize(("language", "column"), [("cpp", 1), ("triton", 2)])
def test_the_siblings_are_those_of_the_experts_page(language: str, column: int) -> None:
    page = (lineages.EXPERTS / "README.md").read_text(encoding="utf-8")
    told = {row[0]: row[column] for row in re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \|$", page, re.MULTILINE)}
    assert lineages.SIBLINGS[language] == told
    for name, sibling in told.items():
        assert (lineages.EXPERTS / language / f"{name}.py").exists()
        assert (lineages.EXPERTS / "plain" / language / f"{sibling}.py").exists()
