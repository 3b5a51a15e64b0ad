"""`bottega bench drafts=N`: the compiler's kernels where a sample has none that is faster. The judge and, but for the last test, the compiler are
fakes (see `small_bench.py`); that one has the real ones."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from app.command_line import as_a_process, in_this_process
from app.test_optimize_drafts import CHAIN
from bench.small_bench import FakeJudge, judged_by, run, writing
from bench.test_bench_damage import killed_at
from bench.worked import attempt, run_of
from episodes.decay import BROKEN, answer, kernel, script

from bottega.app.bench_display import attempt_text
from bottega.backbone.reply import ContextError
from bottega.bench import session
from bottega.bench import verify as verifying
from bottega.bench.attempt import BenchAttempt
from bottega.bench.caveats import incomparable
from bottega.bench.leaderboard import disagreements, read_record
from bottega.bench.metrics import summary
from bottega.bench.report import bench_page, short_page
from bottega.bench.run_directory import SAMPLES, read_run
from bottega.bench.session import BenchFinished
from bottega.bench.verify import verify
from bottega.core.draft import Draft, Drafts
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.episodes.delivery.page import markdown

MODEL = {r"return torch\.relu": answer(kernel(2.0)), r"return x \* 2": answer(kernel("incorrect")), "return -x": BROKEN}
"""Faster, wrong, and none at all."""


class FakeCompiler:
    def __init__(self, *drafts: str, refuses: Sequence[str] = ()) -> None:
        self.sources, self.refuses = drafts, refuses
        self.asked: list[str] = []

    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        self.asked.append(task.name)
        if task.name in self.refuses:
            return Drafts("compiler 2", refused="it is no chain of what it knows")
        return Drafts("compiler 2", tuple(Draft(source) for source in self.sources[:count]))


def told(finished: BenchFinished) -> dict[str, list[tuple[int, str, str]]]:
    """By task the turn, author and outcome of each attempt."""
    outcome = lambda one: "none" if one.verdict is None else one.verdict.outcome.value  # noqa: E731
    every = finished.run.attempts
    return {row.name: [(a.turn, a.author, outcome(a)) for a in every if a.task == row.id] for row in finished.run.tasks}


def test_drafts_are_judged_where_the_model_has_none_that_is_faster_until_one_is(
    tmp_path: Path, tasks: Path, monkeypatch: Any
) -> None:
    judged_by(monkeypatch, judge := FakeJudge())
    compiler = FakeCompiler(kernel(0.5, "first"), kernel(1.5, "second"), kernel(9.0, "third"), refuses=["1_Negate"])
    finished = run(tmp_path / "run", tasks, writing(drafts=3), MODEL, draft_source=compiler)
    assert finished.whole and told(finished) == {
        "1_Relu": [(0, "model", "faster")],
        "2_Double": [(0, "model", "incorrect"), (1, "compiler", "slower"), (2, "compiler", "faster")],
        "1_Negate": [(0, "model", "none"), (1, "compiler", "none")],
    }
    assert sorted(compiler.asked) == ["1_Negate", "2_Double"] and len(judge.judged) == 4
    assert not any(judge.options), "a draft is judged as what it is compared with"
    (refusal,) = [one for one in finished.run.attempts if one.author == "compiler" and one.verdict is None]
    assert refusal.junk == attempt_text(refusal, "eager") == "no draft: compiler 2: it is no chain of what it knows"
    assert read_run(tmp_path / "run").attempts == finished.run.attempts
    found = summary(finished.run)
    assert found.authors == {"model": 1, "compiler": 1} and found.every.sure[1.0].point == pytest.approx(2 / 3)
    assert found.every.best_by_turn[0].sure[1.0].point == pytest.approx(1 / 3), "and what the model alone has"
    assert not any("fewer than" in note for note in found.notes)
    short, whole = markdown(short_page(finished.run)), markdown(bench_page(tmp_path / "run"))
    assert "1 × 1 kernels, and up to 3 drafts of the compiler a task" in short and "no model's alone" in short
    assert "2 of 3 tasks surely faster: 1 by the model, 1 by the compiler" in short
    assert "What the compiler refused" in whole and "best with draft 3" in whole
    record = read_record(tmp_path / "run")[1]
    assert disagreements(finished.run, record) == []
    assert (record["drafts"], record["model"], record["metrics"]["eager"]["authors"]) == (
        3,
        "x and the compiler",
        found.authors,
    )


def test_the_compiler_alone_opens_no_model(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(broken=["2_Double"]), again := FakeJudge())
    settings = {"backbone": "none", "drafts": 2}
    compiler = FakeCompiler(kernel(0.5), kernel(3.0), refuses=["1_Negate"])
    monkeypatch.setattr("bench.small_bench.ChatClient", lambda *_: pytest.fail("a model was opened"))
    finished = run(tmp_path / "run", tasks, settings, draft_source=compiler)
    assert finished.whole and told(finished) == {
        "1_Relu": [(0, "compiler", "slower"), (1, "compiler", "faster")],
        "2_Double": [(0, "compiler", "invalid_task")],
        "1_Negate": [(0, "compiler", "none")],
    }
    assert finished.run.settings["model"] == "compiler" and "0 by the model" not in markdown(short_page(finished.run))
    assert "no model was asked" in " ".join(summary(finished.run).notes)
    assert run(tmp_path / "run", tasks, settings, draft_source=FakeCompiler()).whole and again.judged == []
    with pytest.raises(UsageError, match="nobody writes kernels: give drafts=2"):
        run(tmp_path / "other", tasks, {"backbone": "none"})


def test_a_whole_run_is_whole_without_its_logs(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    """Also where the compiler wrote fewer than it was asked for, and none is faster."""
    judged_by(monkeypatch, FakeJudge(), again := FakeJudge())
    finished = run(tmp_path / "run", tasks, writing(drafts=3), {".": BROKEN}, draft_source=FakeCompiler(kernel(0.5)))
    assert finished.whole and len(finished.run.attempts) == 6
    shutil.rmtree(tmp_path / "run" / SAMPLES)
    later = run(tmp_path / "run", tasks, writing(drafts=3), [], draft_source=FakeCompiler())
    assert later.whole and later.run.attempts == finished.run.attempts and again.judged == []


def test_other_drafts_are_another_run(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, *(FakeJudge() for _ in range(4)))
    compiler = FakeCompiler(kernel(1.5))
    whole = run(tmp_path / "whole", tasks, writing(drafts=1), MODEL, draft_source=compiler)
    plain = run(tmp_path / "plain", tasks, writing(), MODEL)
    for drafts, folder in ((0, "whole"), (1, "plain")):
        with pytest.raises(UsageError, match=r"drafts \d then, \d now"):
            run(tmp_path / folder, tasks, writing(drafts=drafts), MODEL, draft_source=compiler)
    (note,) = incomparable(plain.run, whole.run, "eager")
    assert note.startswith("other authors: up to 0 against 1 drafts of the compiler")
    told = in_this_process("compare", tmp_path / "plain", tmp_path / "whole", "--markdown")
    assert "1 × 1 kernels, and up to 1 draft of the compiler" in told.stdout and "whole: other authors" in told.stdout


def test_a_run_without_drafts_has_the_record_that_it_always_had(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge())
    run(tmp_path / "run", tasks, writing(), MODEL)
    record = read_record(tmp_path / "run")[1]
    assert "drafts" not in record and not {"drafts", "authors"} & record["metrics"]["eager"].keys()
    line = json.loads((tmp_path / "run" / "attempts.jsonl").read_text().splitlines()[0])
    assert BenchAttempt.from_json({name: value for name, value in line.items() if name != "author"}).author == "model"


def test_drafts_are_judged_though_the_budget_is_spent_or_the_task_is_too_long(
    tmp_path: Path, tasks: Path, monkeypatch: Any
) -> None:
    """They take neither tokens nor a context."""
    judged_by(monkeypatch, FakeJudge(), FakeJudge())
    compiler = FakeCompiler(kernel(1.5))
    finished = run(tmp_path / "spent", tasks, writing(drafts=1, tokens=1), {".": BROKEN}, draft_source=compiler)
    assert not finished.whole and "tokens is spent" in finished.ended
    assert sorted(told(finished).values()) == [[], [], [(0, "model", "none"), (1, "compiler", "faster")]]
    finished = run(tmp_path / "long", tasks, writing(drafts=1), [ContextError("too long")] * 3, draft_source=compiler)
    assert finished.whole and set(map(tuple, told(finished).values())) == {((0, "model", "none"), (1, "compiler", "faster"))}


def test_samples_share_drafts_and_candidates_have_them_too(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, judge := FakeJudge(), FakeJudge())
    (tmp_path / "theirs").mkdir()
    for name, speed in (("1_Relu.0", 0.9), ("1_Relu.1", 0.8), ("2_Double.0", 1.2)):
        (tmp_path / "theirs" / f"{name}.py").write_text(kernel(speed))
    theirs = {"candidates": str(tmp_path / "theirs"), "drafts": 1, "language": "cpp"}
    compiler = FakeCompiler(kernel(1.5))
    finished = run(tmp_path / "run", tasks, draft_source=compiler, **theirs)
    assert told(finished)["1_Relu"] == [(0, "model", "slower"), (1, "compiler", "faster")] * 2
    assert told(finished)["2_Double"] == [(0, "model", "faster")] and compiler.asked == ["1_Relu"] and len(judge.judged) == 4
    assert run(tmp_path / "run", tasks, draft_source=FakeCompiler(), **theirs).run.attempts == finished.run.attempts


@pytest.mark.rotates
def test_killed_at_any_write_nothing_is_lost_or_judged_twice(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    log = tmp_path / "judged"

    class Counting(FakeJudge):
        async def judge_async(self, task: Task, candidate: Any, **options: Any) -> Any:
            found = await super().judge_async(task, candidate, **options)
            with log.open("a") as file:
                file.write(f"{task.id} {candidate.id}\n")
            return found

    judged_by(monkeypatch, *(Counting() for _ in range(200)))
    monkeypatch.setattr(verifying, "Shard", session.Shard)

    def work(folder: str) -> BenchFinished:
        compiler = FakeCompiler(kernel(0.5, "first"), kernel(1.5, "second"), kernel(1.6), refuses=["1_Negate"])
        return run(tmp_path / folder, tasks, writing(drafts=3), MODEL, draft_source=compiler)

    expected = {one.key: (one.candidate, one.author) for one in work("whole").run.attempts}
    writes = 1
    while killed_at(writes, partial(work, f"killed{writes}")):
        before = len(log.read_text().splitlines())
        again = work(f"killed{writes}")
        assert again.whole and {one.key: (one.candidate, one.author) for one in again.run.attempts} == expected, writes
        assert len(log.read_text().splitlines()) - before <= 4
        assert disagreements(again.run, read_record(again.run.folder)[1]) == []
        writes += 1
    assert writes > 15
    assert len(log.read_text().splitlines()) < 4 * (writes + 1) + writes, (
        "at most the kernel under way at a kill was judged twice"
    )
    checked = asyncio.run(verify(tmp_path / "whole", ["cpu"], share=1.0))
    assert checked.conclusion == "holds" and checked.kernels == 4


def test_the_kept_kernel_is_its_author_s() -> None:
    """Where two samples have a faster one, the surest is kept."""
    found = run_of({"a": [[1.5], ["incorrect"]], "b": [[0.9]], "c": [[1.1]]}, settings={"samples": 2, "turns": 1, "drafts": 1})
    drafts = (attempt("a", 1, 1, 3.0, author="compiler"), attempt("b", 0, 1, 0.8, author="compiler"))
    told = summary(type(found)(found.folder, found.settings, found.fingerprint, found.tasks, (*found.attempts, *drafts)))
    assert told.authors == {"model": 1, "compiler": 1} and told.turns == 2 and told.drafts == 1


def test_settings_that_only_a_model_has_are_refused_beside_none(tmp_path: Path) -> None:
    told = in_this_process(
        "bench", "builtin:star_relu", "--backbone", "none", "drafts=1", "samples=2", "--out", tmp_path / "run"
    )
    assert told.returncode == 2 and "samples: has no effect without a model" in told.stderr
    told = in_this_process("bench", "builtin:star_relu", "--backbone", "none", "--out", tmp_path / "run")
    assert told.returncode == 2 and "give drafts=2" in told.stderr and not (tmp_path / "run").exists()


@pytest.mark.slow
def test_with_the_real_judge_and_compiler_a_draft_stands_where_the_model_was_wrong(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text(CHAIN)
    wrong = answer(
        "import torch\nfrom torch import nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    model = script(tmp_path, [wrong])
    command = ["bench", tmp_path / "chain.py", "--backbone", model, "drafts=1", "quick=true", "--out", tmp_path / "run"]
    first = as_a_process(*command)
    assert first.returncode == 0, first.stderr
    mine, draft = read_run(tmp_path / "run").attempts
    assert (mine.author, draft.author) == ("model", "compiler") and mine.verdict and not mine.verdict.outcome.accepted
    assert draft.verdict and draft.verdict.correct, draft.verdict
    again = as_a_process(*command)
    assert again.returncode == 0 and len(read_run(tmp_path / "run").attempts) == 2
    alone = as_a_process(
        "bench", tmp_path / "chain.py", "--backbone", "none", "drafts=1", "quick=true", "--out", tmp_path / "alone"
    )
    assert alone.returncode == 0 and "up to 1 draft of the compiler a task" in alone.stdout, alone.stderr
    (only,) = read_run(tmp_path / "alone").attempts
    assert (only.author, only.candidate) == ("compiler", draft.candidate)
