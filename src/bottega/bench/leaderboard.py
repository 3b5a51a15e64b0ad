"""The record of a whole run: who wrote what, judged how and on what, what came of it, and the hashes of everything it rests on.

Hashes show that a folder was changed after its record was made. They do not show that the record was honest in the first place, because
whoever forges one can hash what they forged; judging a part of it again (`verify`) shows that.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bottega.bench.attempt import BenchRun
from bottega.bench.metrics import baselines_of, summary
from bottega.bench.run_directory import ATTEMPTS, KERNELS, LEADERBOARD, read_head
from bottega.core.errors import UsageError
from bottega.episodes.deliver.files import json_text, strict, write

SCHEMA = 1
TOO_LONG = ("grid", "by_turn", "best_by_turn", "best_of_n")
"""Parts of a summary that a record leaves out; whoever has the attempts can compute them."""


def write_record(run: BenchRun) -> Path:
    path = run.folder / LEADERBOARD
    write(path, json_text(record_of(run)))
    return path


def record_of(run: BenchRun) -> dict[str, Any]:
    head, settings, fingerprint = read_head(run.folder), run.settings, run.fingerprint
    return {
        "schema": SCHEMA,
        "kind": "bottega bench",
        "model": settings.get("model") or settings.get("name") or "",
        "library": settings.get("library_facts") or {},
        "judge": fingerprint.get("judge"),
        "bottega": fingerprint.get("bottega"),
        "fingerprint": fingerprint,
        "settings": settings,
        "hashes": hashes_of(run),
        "begun": head.get("begun"),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "metrics": metrics_of(run),
    }


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


def metrics_of(run: BenchRun) -> dict[str, Any]:
    """The headline figures against each baseline, as JSON reads them back."""
    found = {baseline: headline(summary(run, baseline).to_json()) for baseline in baselines_of(run)}
    return dict(json.loads(json.dumps(strict(found))))


def headline(told: dict[str, Any]) -> dict[str, Any]:
    groups = [{name: value for name, value in group.items() if name not in TOO_LONG} for group in told["groups"]]
    return {**told, "groups": groups}


def read_record(path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a record, named by itself or by its folder, and what it says."""
    file = path / LEADERBOARD if path.is_dir() else path
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{file}: no such record; a run has one once it is whole") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: is no record that can be read: {error}") from None
    if not isinstance(record, dict) or not all(
        isinstance(record.get(part), dict) for part in ("hashes", "settings", "metrics")
    ):
        raise UsageError(f"{file}: is no record of a benchmark run")
    return file.parent, record


def disagreements(run: BenchRun, record: dict[str, Any]) -> list[str]:
    """What of a record is not what lies beside it, in words. Empty where all of it is."""
    told = {
        "tasks": "the tasks, or what is said of them, are not those of the record",
        "attempts": f"{ATTEMPTS} was changed after the record was made",
        "kernels": "a kernel was changed or is missing",
    }
    found = hashes_of(run)
    wrong = [told[name] for name in told if record["hashes"].get(name) != found[name]]
    parts: Iterable[tuple[str, Any]] = (("settings", run.settings), ("fingerprint", run.fingerprint))
    wrong += [f"the record's {name} are not those of the run" for name, value in parts if record.get(name) != value]
    if record["metrics"] != metrics_of(run):
        wrong.append("the record's figures do not follow from its attempts")
    return wrong


def _sha(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"
