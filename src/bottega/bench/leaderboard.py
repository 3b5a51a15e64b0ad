"""The leaderboard record of a complete run: model, judge settings, device, metrics, and hashes of all inputs.

Hashes show that a folder was changed after its record was made. They do not show that the record was honest in the first place, because
whoever forges one can hash what they forged; judging a part of it again (`verify`) shows that.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from pathlib import Path
from typing import Any

from bottega.bench.attempt import BenchRun, BenchTask
from bottega.bench.metrics import baselines_of, summary
from bottega.bench.result_arrays import drafts_asked
from bottega.bench.run_directory import ATTEMPTS, KERNELS, LEADERBOARD, read_head
from bottega.core.errors import BottegaError, TaskError, UsageError
from bottega.core.files import encoded, json_text, read_regular, write
from bottega.core.task import Task
from bottega.core.verdict import Outcome

SCHEMA = 1
TOO_LONG = ("grid", "by_turn", "best_by_turn", "best_of_n")
"""Parts of a summary that a record leaves out; whoever has the attempts can compute them."""


def write_record(run: BenchRun) -> Path:
    path = run.folder / LEADERBOARD
    try:
        write(path, json_text(record_of(run)))
    except BottegaError as error:
        raise BottegaError(
            f"{str(error).partition(';')[0]}; all attempts are kept, and the same command writes the record"
        ) from None
    return path


def record_of(run: BenchRun) -> dict[str, Any]:
    head = read_head(run.folder)
    return {
        "schema": SCHEMA,
        "kind": "bottega bench",
        **_heading(run),
        "fingerprint": run.fingerprint,
        "settings": run.settings,
        "hashes": hashes_of(run),
        "begun": head.get("begun"),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "metrics": metrics_of(run),
    }


def _heading(run: BenchRun) -> dict[str, Any]:
    """What a reader of records looks at first. A record with drafts says so here; one without has no word of them."""
    drafts = drafts_asked(run)
    return {
        "model": run.settings.get("model") or run.settings.get("name") or "",
        **({"drafts": drafts} if drafts else {}),
        "library": run.settings.get("library_facts") or {},
        "judge": run.fingerprint.get("judge"),
        "bottega": run.fingerprint.get("bottega"),
    }


def impossible(run: BenchRun) -> list[str]:
    """What no run writes, whatever the hashes say, in words: verdicts that belong to nothing, and tasks under another's name."""
    wrong = []
    for attempt in run.attempts:
        verdict = attempt.verdict
        if verdict is None:
            continue
        where = f"{ATTEMPTS}, task {attempt.task}, sample {attempt.sample}, turn {attempt.turn}"
        if not attempt.candidate and verdict.outcome is not Outcome.INVALID_TASK:
            wrong.append(f"{where}: is {verdict.outcome} without a kernel")
        if verdict.candidate_id not in ("", attempt.candidate) or verdict.task_id not in ("", attempt.task):
            wrong.append(f"{where}: has the verdict on another kernel or task")
    if (
        str(run.fingerprint.get("python")).split(".")[:2] == platform.python_version().split(".")[:2]
    ):  # another prints trees otherwise
        wrong += [
            f"the task {row.name} is not the one that its id names" for row in run.tasks if row.source and _id(row) != row.id
        ]
    return wrong


def _id(row: BenchTask) -> str:
    try:
        return Task(row.source, row.name).id
    except TaskError:
        return ""


def hashes_of(run: BenchRun) -> dict[str, str]:
    """Of the tasks with what is known of them, of the attempts as they were written, and of the kernels' texts."""
    kernels = {attempt.candidate for attempt in run.attempts if attempt.candidate}
    texts = sorted(f"{name} {_sha(run.folder / KERNELS / f'{name}.py')}" for name in kernels)
    rows = "\n".join(sorted(json.dumps(row.to_json(), sort_keys=True) for row in run.tasks))
    return {
        "tasks": hashlib.sha256(rows.encode()).hexdigest(),
        "attempts": _sha(run.folder / ATTEMPTS),
        "kernels": hashlib.sha256("\n".join(texts).encode()).hexdigest(),
    }


def lost_kernels(run: BenchRun) -> list[str]:
    """Kernels that were judged and are not there any more, or not as they were: their names are hashes of their texts."""
    kernels = sorted({attempt.candidate for attempt in run.attempts if attempt.candidate})
    return [name for name in kernels if _sha(run.folder / KERNELS / f"{name}.py")[:16] != name]


def metrics_of(run: BenchRun) -> dict[str, Any]:
    """The headline figures against each baseline, as JSON reads them back."""
    found = {baseline: headline(summary(run, baseline).to_json()) for baseline in baselines_of(run)}
    return dict(json.loads(encoded(json_text(found))))


def headline(told: dict[str, Any]) -> dict[str, Any]:
    groups = [{name: value for name, value in group.items() if name not in TOO_LONG} for group in told["groups"]]
    return {**told, "groups": groups}


def read_record(path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a record, named by itself or by its folder, and what it says."""
    file = path / LEADERBOARD if path.is_dir() else path
    try:
        record = json.loads(read_regular(file))
    except FileNotFoundError:
        raise UsageError(f"{file}: no such record; a run has one once it is whole") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is no record that can be read: {error}") from None
    if not isinstance(record, dict) or not all(
        isinstance(record.get(part), dict) for part in ("hashes", "settings", "metrics")
    ):
        raise UsageError(f"{file}: is no record of a benchmark run")
    if not isinstance(record.get("schema"), int) or record["schema"] > SCHEMA:
        raise UsageError(f"{file}: written by a newer Bottega (schema {record.get('schema')}; this one knows {SCHEMA})")
    return file.parent, record


def disagreements(run: BenchRun, record: dict[str, Any]) -> list[str]:
    """What of a record is not what lies beside it, in words. Empty where all of it is."""
    told = {
        "tasks": "the tasks, or what is said of them, are not those of the record",
        "attempts": f"{ATTEMPTS} was changed after the record was made",
        "kernels": "a kernel was changed or is missing",
    }
    found = hashes_of(run)
    wrong = impossible(run)
    gone = {"kernels"} if lost_kernels(run) else set()
    wrong += [told[name] for name in told if record["hashes"].get(name) != found[name] or name in gone]
    parts = {"settings": run.settings, "fingerprint": run.fingerprint, **_heading(run)}
    wrong += [
        f"in the record's {name} stands something else than in the run's"
        for name, value in parts.items()
        if record.get(name) != value
    ]
    if record["metrics"] != metrics_of(run):
        wrong.append("the record's figures do not follow from its attempts")
    return wrong


def _sha(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path)).hexdigest()
    except OSError:
        return "missing"
