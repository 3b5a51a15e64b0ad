"""The accepted tasks on disk: a table that KernelBench's readers and Hugging Face `datasets` load, a summary, and a card that says what it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.files import write_atomic
from bottega.tasks.synth.run_log import RunRecord
from bottega.tasks.synth.sample import Synthesised
from bottega.tasks.synth.summary import SynthSummary
from bottega.tasks.tables import FORMATS, table_bytes


def row(made: Synthesised, record: RunRecord) -> dict[str, Any]:
    """The columns of one task. `problem_id` is its number in the series: it stays the same in every shard."""
    return {
        "code": made.task.source,
        "name": made.task.name,
        "level": made.level,
        "problem_id": made.index,
        "task_id": made.task.id,
        "ops": list(made.operators),
        "families": list(made.families),
        "family": made.family,
        "structure": made.structure,
        "dtype": made.dtype,
        "device": made.device,
        "seed": made.seed,
        "index": made.index,
        "eager_ms": record.eager_ms,
        "estimate_ms": made.estimate_ms,
    }


def write_output(folder: Path, rows: Sequence[dict[str, Any]], summary: SynthSummary, form: str) -> None:
    """Table, summary and card, each whole or not at all."""
    table = f"tasks.{form}"
    try:
        for other in FORMATS:
            if other != form or not rows:
                (folder / f"tasks.{other}").unlink(missing_ok=True)
        if rows:
            write_atomic(folder / table, table_bytes(rows, form))
        write_atomic(folder / "summary.json", (json.dumps(summary.to_json(), indent=1) + "\n").encode())
        write_atomic(folder / "README.md", card(summary, table).encode())
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written: {error.strerror}; what was examined so far is kept, run again to go on"
        ) from None


def card(summary: SynthSummary, table: str) -> str:
    """A data card; its header tells Hugging Face `datasets` which file is the data."""
    plan = summary.plan
    varies = "like" in plan
    measured = "measured in eager mode" if plan["filtered"] else "not run: neither measured nor checked"
    dropped = ", ".join(f"{count} {reason}" for reason, count in summary.dropped.items()) or "none"
    return f"""---
configs:
- config_name: default
  data_files: {table}
---
# Synthesised tasks

{summary.accepted} tasks in KernelBench's format for {plan["device"]}, {measured}.
Written by `bottega tasks synth`, version {plan["version"]}, seed {plan["seed"]}, shard {plan["shard"]} of {plan["shards"]}.

- levels: {_listed(summary.levels)}
- structures: {_listed(summary.structures)}
- data types: {_listed(summary.dtypes)}
- {"families" if varies else "operators"} covered: {len(summary.operators)}
- dropped: {dropped}

`code`, `name`, `level` and `problem_id` are KernelBench's columns; `ops` are the {"families" if varies else "catalogue's names"}
of the operators, `index` the task's number in the series.
"""


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
