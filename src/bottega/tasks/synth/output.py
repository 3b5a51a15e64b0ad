"""The accepted tasks on disk: a table that KernelBench's readers and Hugging Face `datasets` load, a summary, and a card that says what it is.

Rows are written as they are accepted, into a file beside; it takes its name when the run ends, so that a table is never half of itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.files import write_atomic
from bottega.tasks.synth.run_log import RunRecord
from bottega.tasks.synth.sample import Synthesised
from bottega.tasks.synth.summary import SynthSummary

TABLES = ("jsonl", "parquet")


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


def _as_parquet(path: Path) -> None:
    """The same rows as a Parquet file in its place."""
    from pyarrow import json as rows
    from pyarrow import parquet

    beside = path.with_name(path.name + ".rows")
    path.replace(beside)
    try:
        parquet.write_table(rows.read_json(beside), path)
    finally:
        beside.unlink()


class Output:
    def __init__(self, folder: Path, table: str):
        self.folder = folder
        self.path = folder / f"tasks.{table}"
        self.beside = folder / f".tasks.{table}.{os.getpid()}"
        self.rows = 0
        try:
            self._file = self.beside.open("w", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{self.beside}: cannot be written: {error.strerror}") from None

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.beside.unlink(missing_ok=True)

    def add(self, made: Synthesised, record: RunRecord) -> None:
        try:
            self._file.write(json.dumps(row(made, record), ensure_ascii=False) + "\n")
        except OSError as error:
            raise self._full(error) from None
        self.rows += 1

    def finish(self, summary: SynthSummary) -> None:
        """Put table, summary and card in their places."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            for other in TABLES:
                if other != self.path.suffix[1:]:
                    (self.folder / f"tasks.{other}").unlink(missing_ok=True)
            if self.rows:
                if self.path.suffix == ".parquet":
                    _as_parquet(self.beside)
                self.beside.replace(self.path)
            else:
                self.path.unlink(missing_ok=True)
            write_atomic(self.folder / "summary.json", (json.dumps(summary.to_json(), indent=1) + "\n").encode())
            write_atomic(self.folder / "README.md", card(summary, self.path.name).encode())
        except OSError as error:
            raise self._full(error) from None

    def _full(self, error: OSError) -> UsageError:
        return UsageError(
            f"{self.folder}: cannot be written: {error.strerror}; what was examined so far is kept, run again to go on"
        )


def open_output(folder: Path, table: str) -> Output:
    if table not in TABLES:
        raise UsageError(f"format={table}: use {' or '.join(TABLES)}")
    if table == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UsageError("format=parquet: needs an extra; install it with: pip install 'bottega[datasets]'")
    return Output(folder, table)


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
