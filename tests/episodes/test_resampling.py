"""An answer with a fault that proofreading sees is asked for again; every draw is paid for, and an attempt stays one kernel.

The judge is the fake that reads speeds off the text (see `decay.py`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import BROKEN, TASK, answer, asked, kernel, workshop

from bottega.backbone.chat import Message
from bottega.core.errors import UsageError
from bottega.core.event import Wrote, from_json, to_json
from bottega.core.task import Task
from bottega.core.turn import Turn
from bottega.episodes.attempts import totals_of
from bottega.episodes.budget import Caps
from bottega.episodes.context import Workshop
from bottega.episodes.episode import run_episode
from bottega.episodes.request import differences
from bottega.episodes.resampling import drawn
from bottega.episodes.settings import EpisodeSettings

FAULTY = answer(kernel("compile_error") + "\n\ndef f():\n    return nowhere\n")
OTHER = FAULTY.replace("nowhere", "elsewhere")


def run(folder: Path, answers: Any, caps: Caps | None = None, **settings: Any) -> tuple[Workshop, list[Turn]]:
    shop = workshop(folder, answers, caps)
    wanted = EpisodeSettings(**{"samples": 1, "turns": 1, "schemes": 0, "select": "none", "redraws": 3, **settings})
    with shop.journal:
        asyncio.run(run_episode(shop, TASK, wanted))
    return shop, [event.turn for event in shop.journal.events if isinstance(event, Wrote)]


def samplings(shop: Workshop) -> list[Any]:
    return [one.sampling for one in shop.speaker.backbone.asked]  # type: ignore[attr-defined]


def test_the_first_answer_without_a_fault_is_judged_and_all_are_paid_for(tmp_path: Path) -> None:
    shop, (turn,) = run(tmp_path, [FAULTY, BROKEN, answer(kernel(2.0)), answer(kernel(9.0))], temperature=0.0)
    assert turn.source == kernel(2.0) and turn.redrawn == 2 and shop.judge.judged == ["s0r0t0"]  # type: ignore[attr-defined]
    assert [one.temperature for one in samplings(shop)] == [0.0, 0.7, 0.7]
    assert len({one.seed for one in samplings(shop)}) == 3
    alone, (only,) = run(tmp_path / "alone", [answer(kernel(2.0))])
    assert turn.prompt_tokens == 3 * only.prompt_tokens and turn.output_tokens > only.output_tokens
    assert shop.budget.tokens == turn.prompt_tokens + turn.output_tokens and shop.budget.kernels == alone.budget.kernels == 1
    assert totals_of(shop.journal.events).calls == 3


def test_where_every_draw_has_a_fault_the_first_is_judged(tmp_path: Path) -> None:
    shop, (turn,) = run(tmp_path, [FAULTY, OTHER, OTHER, OTHER, answer(kernel(2.0))])
    assert asked(shop) == 4 and turn.redrawn == 3 and "nowhere" in turn.source
    assert shop.judge.judged == ["s0r0t0"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("caps", "settings"), [(None, {"redraws": 0}), (Caps(tokens=10), {})])
def test_nothing_is_drawn_again_unasked_or_unpaid(tmp_path: Path, caps: Caps | None, settings: dict[str, int]) -> None:
    shop, (turn,) = run(tmp_path, [FAULTY, answer(kernel(2.0))], caps, **settings)
    assert asked(shop) == 1 and turn.redrawn == 0 and "nowhere" in turn.source


def test_the_last_kernel_of_a_budget_may_be_drawn_again(tmp_path: Path) -> None:
    _, (turn,) = run(tmp_path, [FAULTY, answer(kernel(2.0))], Caps(kernels=1))
    assert turn.source == kernel(2.0)


def test_a_model_that_falls_silent_between_draws_leaves_what_it_gave(tmp_path: Path) -> None:
    _, (turn,) = run(tmp_path, [FAULTY])
    assert turn.redrawn == 0 and "nowhere" in turn.source


def test_a_run_that_goes_on_counts_what_its_draws_took(tmp_path: Path) -> None:
    first, _ = run(tmp_path, [FAULTY, answer(kernel(2.0))])
    second, _ = run(tmp_path, [])
    assert asked(second) == 0 and second.budget.tokens == first.budget.tokens


def test_logs_and_settings_from_before_still_read(tmp_path: Path) -> None:
    shop, _ = run(tmp_path, [answer(kernel(2.0))])
    (wrote,) = [event for event in shop.journal.events if isinstance(event, Wrote)]
    old = to_json(wrote)
    del old["turn"]["redrawn"]
    assert from_json(old) == wrote
    assert differences({"redraws": 0}, {"redraws": 3}) == ["redraws 0 then, 3 now"]
    with pytest.raises(UsageError, match="redraws must be 0 or more"):
        EpisodeSettings(redraws=-1)


@pytest.mark.parametrize("strategy", ["parallel", "serial"])
def test_the_first_of_several_answers_can_be_the_likeliest_one(tmp_path: Path, strategy: str) -> None:
    several = [answer(kernel(float(speed))) for speed in (2, 3, 4, 5)]
    shop, turns = run(tmp_path, several, strategy=strategy, samples=2, turns=2, temperature=0.8, likeliest_first=True)
    assert len(turns) == 4
    assert sorted(one.temperature for one in samplings(shop)) == [0.0, 0.8, 0.8, 0.8]
    assert {event.node for event in shop.journal.events if isinstance(event, Wrote)} >= {
        "s0p0" if strategy == "parallel" else "s0r0t0"
    }


@pytest.mark.parametrize("redraws", [3, 0])
def test_what_is_sure_is_mended_where_answers_may_be_drawn_again(tmp_path: Path, redraws: int) -> None:
    """A misspelt name, and a row that is too long for one program; training, which draws nothing again, sees its own faults."""
    written = """import torch
import triton
import triton.language as tl


class ModelNew(Model):
    def forward(self, energies):
        t1 = torch.empty((8,), device=energy.device)
        columns = energies.shape[1] * energies.shape[2]
        t1_kernel[(8,)](energies, t1, columns, BLOCK=triton.next_power_of_2(columns))
        return t1


@triton.jit
def t1_kernel(energies_ptr, t1_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    energies = tl.load(energies_ptr + row * columns + column, mask=mask, other=0.0)
    t1 = tl.sum(energies, axis=0)
    tl.store(t1_ptr + row, t1)
"""
    task = Task(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, energies):\n        return energies.sum((1, 2))\n",
        "total",
    )
    sketch = "forward(energies)\nenergies 8x256x256\nt1 = sum(energies, dim=(1, 2)) 8\nreturn t1"
    settings = EpisodeSettings(style="terse", language="triton", redraws=redraws)
    shop = workshop(tmp_path, [answer(written)])
    with shop.journal:
        turn = asyncio.run(drawn(shop, task, settings, "s0r0t0", [Message("user", "a task")], sketch))
    mended = redraws > 0
    assert ("energy.device" in turn.source, "t1_kernel_in_pieces" in turn.source) == (not mended, mended)
    assert "energy.device" in turn.text  # what the model said stays
