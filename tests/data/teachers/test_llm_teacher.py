"""The llm teacher: a backbone's episode as a build, with what went wrong on the way as mistakes that were really made."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bottega.backbone.client import ChatClient
from bottega.backbone.scripted import ScriptedChat
from bottega.compiler.build_step import Refusal
from bottega.core.errors import BudgetError
from bottega.data.records import Mutant
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.data.stored_verdicts import StoringJudge
from bottega.data.teacher_pool import InProcessTeacherPool
from bottega.data.teachers.llm import LlmTeacher, TeacherModel, slug
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.device_facts import device_facts
from bottega.judge.judge import Judge

sys.path.insert(0, str(Path(__file__).parent / "cold_start"))

from hand_teacher import kernel, task

WANTED = task("silu_chain")
SETTINGS = EpisodeSettings(turns=3, samples=1, schemes=0)


def said(summary: str, source: str) -> str:
    return f"{summary}\n```python\n{source}```"


def teacher(
    answers: list[str], judge: object, folder: Path, failed: list[Mutant], caps: BudgetCaps | None = None
) -> LlmTeacher:
    model = TeacherModel("scripted", ChatClient(ScriptedChat(answers)), SETTINGS, caps or BudgetCaps())
    return LlmTeacher(model, judge, device_facts("cpu"), folder, failed=failed.extend)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_build_out_of_an_episode(judge: Judge, tmp_path: Path) -> None:
    right = kernel("silu_chain", False, False, 0)
    broken = right.replace("+ shift[i]", "- shift[i]")
    threads = kernel("silu_chain", False, True, 0)
    answers = [said("One pass.", broken), said("Add the shift.", right), said("Spread the rows over all threads.", threads)]
    failed: list[Mutant] = []
    with JudgedStore(tmp_path / "store") as store:
        keeping = StoringJudge(judge, store, JudgeSetup("1", "cpu"))
        with teacher(answers, keeping, tmp_path / "log", failed) as made:
            build = asyncio.run(made.teach(WANTED, "cpp"))
            again = asyncio.run(made.teach(WANTED, "cpp"))  # from the log: the script has no answer left
        assert build == again and store.counts()["verdicts"] == 3
    steps = {step.candidate.source: step for step in build.steps}
    assert set(steps) == {right, threads} and build.teacher == "llm 1 scripted"
    assert steps[right].technique == "naive" and steps[right].candidate.parent is None
    assert steps[threads].technique == "spread_rows_over_all_threads"
    assert steps[threads].candidate.parent == steps[right].candidate.id
    (mutant,) = {mutant.candidate.id: mutant for mutant in failed}.values()
    assert (mutant.candidate.source, mutant.candidate.parent, mutant.mistake) == (
        broken,
        steps[right].candidate.id,
        "model_incorrect",
    )


def test_an_episode_without_a_right_kernel_is_a_refusal(judge: Judge, tmp_path: Path) -> None:
    with (
        teacher(["no kernel here"] * 3, judge, tmp_path, []) as made,
        pytest.raises(Refusal, match="none of 3 kernels was right"),
    ):
        asyncio.run(made.teach(WANTED, "cpp"))


def test_a_spent_budget_ends_the_run_and_not_the_build(judge: Judge, tmp_path: Path) -> None:
    with teacher(["no kernel here"] * 9, judge, tmp_path, [], BudgetCaps(kernels=1)) as made:
        pool = InProcessTeacherPool(made)
        for seed in (0, 1):
            with pytest.raises(BudgetError, match="1 kernels is spent"):
                asyncio.run(pool.teach(WANTED, "cpp", seed))


def test_a_slug_keeps_what_tells() -> None:
    assert slug("We fuse the bias and the GELU into the product.") == "fuse_bias_gelu_product"
    assert slug("") == "unnamed"
