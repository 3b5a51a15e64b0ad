"""A module that is slow as people first write it, a kernel that is far faster, and answers of a model that come to it. And parts of a
context without processes, for tests of control flow: their judge is a fake that reads the speed off the kernel's text."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bottega.agents.prompts import Prompts
from bottega.backbone.client import ChatClient
from bottega.backbone.scripted import Script, ScriptedChat
from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.draft import Draft
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.budget import BudgetCaps, RunBudget
from bottega.episodes.context import EpisodeContext
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies import STRATEGIES
from bottega.episodes.writing import EpisodeSearch

MODULE = '''"""A decaying sum over time, as people write it first."""

import torch
from torch import nn


class Decay(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.gain = nn.Parameter(torch.full((8,), 1.5))

    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        outs = []
        for t in range(x.shape[1]):
            h = self.rate * h + x[:, t]
            outs.append(h * self.gain)
        return torch.stack(outs, 1)


def example():
    return torch.randn(2, 512, 8)
'''
KERNEL = r'''"""The whole recurrence in one pass."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cstdint>

extern "C" void decay(const float* x, const float* gain, float* y, float rate, int64_t batch, int64_t steps, int64_t width) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < width; ++c) {
      float h = 0.f;
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t i = (b * steps + t) * width + c;
        h = rate * h + x[i];
        y[i] = h * gain[c];
      }
    }
}
""")


class ModelNew(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.gain = nn.Parameter(torch.full((8,), 1.5))

    def forward(self, x):
        y = torch.empty_like(x)
        library.decay(x, self.gain, y, self.rate, x.shape[0], x.shape[1], x.shape[2])
        return y
'''
WRONG = KERNEL.replace("h * gain[c]", "h")
BROKEN = "I would rather talk about the weather."


def answer(source: str, summary: str = "One pass over memory.") -> str:
    return f"summary: {summary}\n```python\n{source}```\n"


def script(folder: Path, answers: Sequence[str]) -> str:
    """The backbone that gives these answers, one after the other."""
    (folder / "script.json").write_text(json.dumps(list(answers)))
    return f"scripted:{folder / 'script.json'}"


TASK = Task(
    MODULE.replace("class Decay", "class Model").replace("def example", "def get_inputs")
    + "\ndef get_init_inputs():\n    return [0.9]\n",
    "decay",
)
DEVICE = DeviceFacts("cpu", "a CPU", "x86_64 avx2", 2, 4.0)


def kernel(speed: float | str, note: str = "") -> str:
    """A kernel for the fake judge: right and this many times as fast, or of this outcome."""
    return f"# speed {speed}\n# {note}\nclass ModelNew:\n    pass\n"


def verdict_of(source: str) -> Verdict:
    found = re.search(r"# speed (\S+)", source)
    assert found is not None
    if not re.fullmatch(r"[\d.]+", found[1]):
        return Verdict(Outcome(found[1]), diagnosis=f"It is {found[1]}.")
    point = float(found[1])
    outcome = Outcome.FASTER if point > 1.02 else Outcome.SLOWER if point < 0.98 else Outcome.SAME
    return Verdict(outcome, True, {"eager": Speedup(point, point * 0.98, point * 1.02)}, diagnosis=f"{point} times as fast.")


class FakeJudge:
    """Reads verdicts off the text. Stands in where control flow is tested; the judge itself is used in tests/app/test_optimize.py."""

    def __init__(self) -> None:
        self.judged: list[str] = []
        self.trusted: list[str] = []

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        self.judged.append(candidate.name)
        if options.get("own_code"):
            self.trusted.append(candidate.name)
        return verdict_of(candidate.source)


def episode_context(
    folder: Path, answers: Script, caps: BudgetCaps | None = None, library: Any = None, context: int = 32_768
) -> EpisodeContext:
    client = ChatClient(ScriptedChat(answers, context=context))
    return EpisodeContext(
        client, FakeJudge(), library, Prompts("compact"), DEVICE, EpisodeJournal(folder), RunBudget(caps or BudgetCaps())
    )


def asked(context: EpisodeContext) -> int:
    """How many answers the script has given."""
    return len(context.client.backbone.asked)  # type: ignore[attr-defined]


def search(context: EpisodeContext, settings: EpisodeSettings, schemes: Sequence[tuple[Any, ...]] = ((),)) -> EpisodeSearch:
    return EpisodeSearch(context, TASK.id, TASK, settings, schemes)


def searched(place: EpisodeSearch, drafts: Sequence[str] = ()) -> EpisodeSearch:
    """The same, once its strategy has come to its end, behind drafts."""

    async def run() -> None:
        for number, source in enumerate(drafts, 1):
            await place.adopt(f"draft{number}", Draft(source, ""), "a compiler")
        await STRATEGIES.load(place.settings.strategy)(place)

    with place.context.journal:
        asyncio.run(run())
    return place
