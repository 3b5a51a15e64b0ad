"""A writer for `bottega skills verify --writer`: a task's plain kernel with the steps of the given cards done to it, by their rules alone.

    bottega skills verify cumsum_over_time_threads --task builtin:cumsum_over_time --sibling builtin:gated_scan \\
        --writer "python examples/experts/follow_cards.py lineages"

It answers whether a card helps someone who does what it says and nothing else. `lineages` holds a folder of `bottega lineage mine` for each expert,
named like its task; kernels of sibling tasks are those in `plain/`. A card that finds no place leaves the kernel as it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bottega.core.task import Task
from bottega.lineage.round_trip import by_rules_or_example
from bottega.lineage.rule import rules_of
from bottega.skills.relations import in_order
from bottega.skills.validation import admit_data


def main() -> None:
    asked = json.load(sys.stdin)
    mined = Path(sys.argv[1]) / asked["name"] / "plain.py"
    given = Path(__file__).parent / "plain" / asked["language"] / f"{asked['name']}.py"
    source = next((path for path in (mined, given) if path.is_file()), None)
    if source is None:
        raise SystemExit(f"no plain kernel for {asked['name']}: mine it, or put one at {given}")
    kernel, redo = source.read_text(encoding="utf-8"), by_rules_or_example(rules_of(asked["language"]))
    for card in in_order([admit_data(data) for data in asked["skills"]]):
        edit = next(redo(card, Task(asked["task"], asked["name"]), kernel), None)
        kernel = edit.source if edit is not None else kernel
    print(kernel)


if __name__ == "__main__":
    main()
