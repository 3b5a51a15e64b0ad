"""Run directories as the real writers write them: journals, recorders and libraries. Their verdicts are made up, so that they are there at once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from bottega.bench import run_directory
from bottega.bench.attempt import BenchAttempt, BenchTask
from bottega.core.event import (
    Credited,
    EpisodeStarted,
    Judged,
    Measured,
    RunEnded,
    RunStarted,
    Selected,
    Summarised,
    Wrote,
)
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict, Violation
from bottega.episodes.journal import EpisodeJournal
from bottega.lineage.journal import LineageJournal
from bottega.lineage.round_trip import RoundTrip
from bottega.lineage.step import Attempt as LineageAttempt
from bottega.lineage.step import Effect, Step
from bottega.skills.library import Library
from bottega.skills.starter import starter_cards
from bottega.train.run_directory import RunDirectory
from bottega.train.settings import Config

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=2>\x1b[31m\u202e\" onmouseover='window.hit=3'"
"""What a kernel, a name or a diagnosis may hold: markup, a terminal's escapes, a mark that reverses the line, quotation marks."""
EPISODE = "task-1"


def verdict(outcome: Outcome = Outcome.FASTER, point: float = 2.0, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "correct": outcome.accepted,
        "speedup": {"eager": Speedup(point, point * 0.9, point * 1.1)} if outcome.accepted else {},
        "times_ms": {"candidate": 4 / point, "eager": 4.0, "floor": 0.5} if outcome.accepted else {},
        "coverage": {
            "share": 0.97,
            "method": "samples",
            "own": ["mine"],
            "samples": 900,
            "hottest": [["mine", 0.97], ["libc", 0.03]],
        },
        "diagnosis": f"{point:.2f} times as fast" if outcome.accepted else "wrong in 12 places",
        "baseline": "eager" if outcome.accepted else "",
        "stages_s": {"build": 1.5, "time": 2.5},
        "fingerprint": {"judge": "8", "device": "cpu"},
    }
    return Verdict(outcome, **{**fields, **changes})


def turn(source: str, **changes: Any) -> Turn:
    fields: dict[str, Any] = {"source": source, "prompt": "[user]\nwrite it", "prompt_tokens": 20, "output_tokens": 30}
    return Turn("write", f"```python\n{source}\n```", **{**fields, **changes})


def search(folder: Path, ended: bool = True, hostile: bool = False) -> Path:
    """A tree of four kernels: a draft, two children of each other, and a wrong one."""
    with EpisodeJournal(folder) as journal:
        journal.write(RunStarted("bottega optimize module.py", {"backbone": "scripted:x"}, {"device": "cpu"}))
        journal.write(
            EpisodeStarted(
                f"{EPISODE}/start", EPISODE, EPISODE, HOSTILE if hostile else "decay", "scan", "x = 1", "cpu", 3, ("a_card",)
            )
        )
        _kernel(journal, "draft1", None, "a = 1\nb = 2\n", verdict(point=1.1), author="compiler 2")
        _kernel(journal, "s0p0", None, "a = 1\nb = 3\n", verdict(Outcome.SLOWER, 0.5))
        _kernel(journal, "s0p1", "s0p0", "a = 1\nb = 4\nc = 5\n", verdict(point=3.2))
        wrong = verdict(
            Outcome.REJECTED, diagnosis=HOSTILE if hostile else "it does nothing", violations=(Violation("decoy", HOSTILE),)
        )
        _kernel(journal, "s0p2", "s0p1", HOSTILE if hostile else "a = 0\n", wrong)
        if ended:
            journal.write(RunEnded("all turns taken", {"outcome": "faster", "node": "s0p1"}))
    return folder


def _kernel(journal: EpisodeJournal, name: str, parent: str | None, source: str, found: Verdict, author: str = "") -> None:
    episode = EPISODE
    journal.write(Wrote(f"{episode}/write/{name}", episode, name, parent, 0, turn(source), 0.5, author=author))
    journal.write(Judged(f"{episode}/judge/{name}", episode, name, found, seconds=1.0))


def bench(folder: Path, tasks: int = 6, samples: int = 3, finished: bool = True) -> Path:
    """The first sample of each task is faster, the second slower, the third wrong; the last task's fourth is hostile."""
    head = {"settings": {"samples": samples, "turns": 1, "baselines": ["eager"], "name": "made"}, "fingerprint": {}, "hashes": {},
            "command": "bottega bench made", "begun": "2026-11-17T08:00:00Z"}  # fmt: skip
    run_directory.begin(folder, head)
    with run_directory.Recorder(folder) as recorder:
        for number in range(tasks):
            recorder.note(BenchTask(f"id{number}", f"task_{number}", 1 + number % 2, ("norm", "scan")[number % 2], "x = 1"))
            for sample in range(samples):
                recorder.add(*attempt(number, sample))
    if finished:
        (folder / "leaderboard.json").write_text("{}")
    return folder


def attempt(task: int, sample: int, found: Verdict | None = None) -> tuple[BenchAttempt, str]:
    outcomes = (verdict(point=1.5 + task / 10), verdict(Outcome.SLOWER, 0.7), verdict(Outcome.INCORRECT))
    source = f"kernel = {task}, {sample}\n"
    name = hashlib.sha256(source.encode()).hexdigest()[:16]
    return BenchAttempt(
        f"id{task}", sample, 0, found or outcomes[sample % 3], name, "cpp", 10, 20, 0.0, 1.25, ("a_card",)
    ), source


def training(folder: Path, steps: int = 4, credited: bool = True) -> Path:
    """An RL run: figures of every step, and the log of the last one with its answers, tokens and credits."""
    with EpisodeJournal(folder) as journal:
        RunDirectory(folder).begin("rl", Config())
        journal.write(RunStarted("bottega train", Config().model_dump(mode="json"), {}))
        for step in range(1, steps + 1):
            journal.write(
                Measured(
                    f"train/{step}", step, {"reward": step / 10, "reward_best": step / 5, "correct": 0.5, "entropy": 1 / step}
                )
            )
    with EpisodeJournal(folder / "steps" / f"{steps:06}") as log:
        episode = f"{steps:06}/000-{EPISODE}"
        log.write(EpisodeStarted(f"{episode}/start", episode, EPISODE, "decay", "scan", "x = 1", "cpu", 17, ("a_card",)))
        chosen = Turn("select", "a_card: fits", output_ids=(5, 6), logprobs=(-0.1, -2.5))
        log.write(Selected(f"{episode}/select/1", episode, 1, ("a_card",), turn=chosen))
        for name, parent, point in (("s0r0t0", None, 0.8), ("s0r0t1", "s0r0t0", 2.5)):
            written = turn(f"kernel = {point}\n", output_ids=(1, 2, 3), logprobs=(-0.01, -0.7, -3.0), policy_version=3)
            log.write(Wrote(f"{episode}/write/{name}", episode, name, parent, 0, written))
            log.write(
                Judged(
                    f"{episode}/judge/{name}", episode, name, verdict(Outcome.FASTER if point > 1 else Outcome.SLOWER, point)
                )
            )
        log.write(Summarised(f"{episode}/summary/0", episode, Turn("summarise", "a card")))
        if credited:
            rows = [
                {"trace": f"{episode}/write/s0r0t1", "turn": 0, "role": "write", "reward": 0.8125, "advantage": -1.75},
                {"trace": f"{episode}/write/s0r0t1", "turn": 1, "role": "write", "reward": 2.8125, "advantage": 1.75},
                {"trace": f"{episode}/select/1", "turn": 0, "role": "select", "reward": 1.5625, "advantage": 0.3125},
            ]
            log.write(Credited("credits", steps, tuple(rows)))
    return folder


def library(folder: Path, cards: int = 3) -> Path:
    with Library(folder) as made:
        made.add_many(starter_cards()[:cards])
    return folder


def lineage(folder: Path, ended: bool = True) -> Path:
    """Two steps away from an expert kernel, one that was refused between them, and one that was done again from its card."""
    folder.mkdir(parents=True)
    steps = [
        Step(
            number,
            LineageAttempt(feature, "8", HOSTILE, f"without {feature}\n", "slower", True, Effect(2.0, 1.9, 2.1)),
            f"with {feature}\n",
        )
        for number, feature in ((1, "unrolling"), (2, "vectors"))
    ]
    refused = LineageAttempt("tiling", "", "loop", "untiled\n", "incorrect", False, None, "element 3 is wrong")
    with LineageJournal(folder) as journal:
        journal.begin({"kernel": "rms_norm.py", "task": "builtin:rms_norm", "sibling": "", "backbone": "", "fingerprint": {}})
        journal.once("verdict/t/c", lambda: {"verdict": verdict().to_json(), "source": "kernel"})
        for step in steps:
            journal.once(f"step/{step.number}", lambda step=step: {"step": step.to_json()})
        if ended:
            entries = [{"after": 1, "attempt": refused.to_json()}]
            told = {"steps": [step.to_json() for step in steps], "refused": entries, "ended": "it is plain"}
            journal.once("walked", lambda: told)
            for trip in (RoundTrip(1, steps[0].attempt), RoundTrip(2, None)):
                journal.once(f"trip/{trip.number}", lambda trip=trip: {"trip": trip.to_json()})
            journal.once("ended", lambda: {"cards": ["a_card"], "verified": 1})
    return folder
