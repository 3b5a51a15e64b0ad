"""The data card: what is in the data, how much of each, what it was made from and with, and the hash of every file."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.files import file_sha256
from bottega.data.breadth import turning
from bottega.data.data_files import SPLITS, write_whole
from bottega.data.examples_stage import ExampleSet
from bottega.data.records import UNJUDGED

FILE, TEXT = "card.json", "card.md"
COUNTED = ("role", "kind", "language", "level", "family", "outcome")


def card_of(
    outcome: ExampleSet, files: Iterable[Path], material: Mapping[str, Any], making: Mapping[str, Any], counted_by: str
) -> dict[str, Any]:
    """`material`: what the store holds; `making`: the command, its settings, and what they ran on and with."""
    rows = [example.row() for example in outcome.examples]
    outcomes = [turning(example) for example in outcome.examples]
    return {
        **counts_of_rows(rows, outcomes, counted_by),
        "made": outcome.made,
        "left_out": dict(outcome.lost.most_common()),
        "unreadable": outcome.faults,
        "coverage": outcome.coverage,
        "material": dict(material),
        **making,
        "files": facts_of_files(files),
    }


def counts_of_rows(rows: Sequence[Mapping[str, Any]], outcomes: Sequence[str], counted_by: str) -> dict[str, Any]:
    """What a card says of the rows themselves. `outcomes` has the outcome to count each row under."""
    tokens = [int(row["tokens"]) for row in rows]
    values = {
        axis: outcomes if axis == "outcome" else ["none" if row[axis] is None else str(row[axis]) for row in rows]
        for axis in COUNTED
    }
    return {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "examples": len(rows),
        "splits": dict(Counter(row["split"] for row in rows)),
        "counts": {axis: dict(Counter(found).most_common()) for axis, found in values.items()},
        "tasks": {split: len({row["task_id"] for row in rows if row["split"] == split}) for split in SPLITS},
        "operator_combinations": {split: len({tuple(row["ops"]) for row in rows if row["split"] == split}) for split in SPLITS},
        "tokens": {
            "counted_by": counted_by,
            "total": sum(tokens),
            "median": statistics.median(tokens) if tokens else 0,
            "longest": max(tokens, default=0),
        },
    }


def facts_of_files(files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    return {path.name: {"sha256": file_sha256(path), "bytes": path.stat().st_size} for path in files}


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    write_whole(folder / FILE, (json.dumps(card, indent=1, ensure_ascii=False) + "\n").encode())
    write_whole(folder / TEXT, text_of(card).encode())


def read_card(folder: Path) -> dict[str, Any]:
    try:
        card = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{folder}: has no {FILE} that can be read ({error.strerror}); `bottega data build` writes it"
        ) from None
    except ValueError as error:
        raise UsageError(
            f"{folder / FILE}: is damaged ({error}); `bottega data build --stage examples` writes it again"
        ) from None
    return dict(card)


def changed_files(folder: Path, card: Mapping[str, Any]) -> list[str]:
    """Files that are gone or no longer what the card says."""
    return [
        name
        for name, facts in card["files"].items()
        if not (folder / name).is_file() or file_sha256(folder / name) != facts["sha256"]
    ]


def _how_judged(card: Mapping[str, Any]) -> str:
    alone = card["counts"].get("outcome", {}).get(UNJUDGED, 0)
    every = f"{alone} first attempts were taught and not judged by anyone; every other kernel" if alone else "Every kernel"
    if "; trusted " not in str(card.get("device", "")):
        return f"{every} was judged correct and honest"
    text = f"{every} was judged correct by the trusted judge, which does not isolate kernels and takes only those of our own compiler"
    audit = card.get("audit")
    if not audit:
        return f"{text}; the judge audited none of them"
    return (
        f"{text}. The judge audited {audit['audited']} of its verdicts ({audit['share']:.1%} were drawn): it agrees on "
        f"{audit['same_class']}, and on the speed of {audit['overlapping']} of {audit['both_timed']}"
    )


def text_of(card: Mapping[str, Any]) -> str:
    """The card for people."""
    lines = ["# Cold-start data", ""]
    lines += [
        f"{card['examples']} examples for the roles of a kernel writer, made {card['made_at']} from judged kernels: "
        f"{card['splits'].get('train', 0)} to train on, {card['splits'].get('test', 0)} held out. Held-out tasks have combinations of "
        f"operators that no training task has. {_how_judged(card)}; speedups are measured, with their intervals.",
        "",
    ]
    for axis, counts in card["counts"].items():
        lines += [
            f"## By {axis}",
            "",
            f"| {axis} | examples |",
            "|---|---:|",
            *(f"| {name} | {n} |" for name, n in counts.items()),
            "",
        ]
    lines += ["## Breadth, before and after the diversity filter", ""]
    lines += ["| axis | values | effective number | largest share |", "|---|---:|---:|---:|"]
    for row in card["coverage"]:
        one, other = row["before"], row["after"]
        lines.append(
            f"| {row['axis']} | {one['values']} → {other['values']} | {one['effective']:.1f} → {other['effective']:.1f} "
            f"| {one['largest_share']:.0%} → {other['largest_share']:.0%} |"
        )
    lines += ["", "## Left out", "", *(f"- {number}: {reason}" for reason, number in card["left_out"].items()), ""]
    lines += [f"- an answer that could not be read back: {fault}" for fault in card["unreadable"]]
    tokens = card["tokens"]
    lines += [
        "## Length",
        "",
        f"{tokens['total']} tokens by {tokens['counted_by']}; median {tokens['median']:g}, longest {tokens['longest']}.",
        "",
        "## Made from and with",
        "",
    ]
    for name in ("command", "teachers", "judge", "device", "tasks_from", "seeds", "style"):
        if name in card:
            value = card[name]
            lines.append(f"- {name.replace('_', ' ')}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    lines += [f"- {name}: {number}" for name, number in card["material"].items() if isinstance(number, int)]
    lines += [
        "",
        "## Files",
        "",
        *(f"- `{name}`: {facts['bytes']} bytes, sha256 `{facts['sha256']}`" for name, facts in card["files"].items()),
        "",
    ]
    return "\n".join(lines)
