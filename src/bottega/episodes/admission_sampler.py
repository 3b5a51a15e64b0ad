"""Attempts by the backbone, for the gate: one answer of the writer with these skills in its prompt, judged.

The gate asks from several threads and waits; a speaker answers on an event loop. The loop runs in a thread of its own, so that answers
asked for at the same time share a batch. Kernels are kept by their id: winners are judged again, also after a restart.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from bottega.agents import writer
from bottega.agents.answers.answer import AnswerError
from bottega.agents.budget import Budget
from bottega.agents.prompts import Prompts
from bottega.backbone.client import Answer, Speaker
from bottega.backbone.sampling import Sampling
from bottega.compiler.callgraph_tracer import shared_sketcher
from bottega.compiler.link import completed
from bottega.core.candidate import Candidate, Language
from bottega.core.device import DeviceFacts
from bottega.core.errors import LibraryError
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.context import PROMPT_SHARE, seed_of
from bottega.episodes.phases import Phases, share_device


class Judging(Protocol):
    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict: ...


class Apprentice:
    """Use it as a context manager: it owns the loop's thread, not the speaker and not the judge."""

    def __init__(
        self,
        speaker: Speaker,
        judge: Judging,
        prompts: Prompts,
        device: DeviceFacts,
        language: Language,
        kernels: Path,
        *,
        temperature: float = 1.0,
        max_tokens: int = 2048,
        baseline: str = "eager",
        judged_on: str | None = None,
        shared: Phases | None = None,
    ) -> None:
        """`judged_on`: the judge's device; `shared`: the phases of the model's, where the speaker does not tell them."""
        self.speaker, self.judge, self.prompts, self.device, self.language = speaker, judge, prompts, device, language
        self.kernels, self.temperature, self.max_tokens, self.baseline = kernels, temperature, max_tokens, baseline
        self.judged_on, self.phases = judged_on, shared or share_device(speaker)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="apprentice", daemon=True)

    def __enter__(self) -> Apprentice:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self.speaker.close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def attempt(self, task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        """The same seed draws the same noise with and without the card. An answer without a kernel is worth nothing, and no error."""
        with self.phases.generating():
            answer = self._answer(task, skills, seed)
        try:
            source = completed(writer.parse(answer.text).source, task.source)
        except AnswerError as error:
            return Verdict(Outcome.COMPILE_ERROR, diagnosis=str(error), task_id=task.id)
        candidate = Candidate.from_source(source)
        self._keep(candidate)
        with self.phases.judging(self.judged_on):
            return self.judge.judge(task, candidate)

    def _answer(self, task: Task, skills: Sequence[Skill], seed: int) -> Answer:
        sketch = shared_sketcher().sketch(task) if self.prompts.shows("write", "sketch") else ""
        given = writer.WriterInput(task, self.language, self.device, tuple(skills), sketch=sketch, baseline=self.baseline)
        room = min(self.speaker.context - self.max_tokens, int(self.speaker.context * PROMPT_SHARE))
        messages = writer.messages(given, self.prompts, Budget(max(room, 256), self.speaker.count_tokens))
        sampling = Sampling(self.max_tokens, self.temperature, seed=seed_of(seed, task.id))
        return asyncio.run_coroutine_threadsafe(self.speaker.say(messages, sampling), self._loop).result()

    def confirm(self, task: Task, verdict: Verdict) -> Verdict:
        place = self.kernels / f"{verdict.candidate_id}.py"
        try:
            source = place.read_text(encoding="utf-8")
        except OSError as error:
            raise LibraryError(
                f"{place}: the kernel cannot be judged again: {error.strerror}; prove the card with another seed"
            ) from None
        with self.phases.judging(self.judged_on):
            return self.judge.judge(task, Candidate.from_source(source), quick=False)

    def _keep(self, candidate: Candidate) -> None:
        place = self.kernels / f"{candidate.id}.py"
        temporary = place.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        try:
            self.kernels.mkdir(parents=True, exist_ok=True)
            temporary.write_text(candidate.source, encoding="utf-8")
            temporary.replace(place)
        except OSError as error:
            raise LibraryError(
                f"{place}: a kernel cannot be kept: {error.strerror}; start the proof again when it can"
            ) from None
