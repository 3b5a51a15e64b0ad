"""Attempts by the backbone, for the gate: one answer of the writer with these skills in its prompt, judged.

The gate asks from several threads and waits; a client answers on an event loop. The loop runs in a thread of its own, so that answers
asked for at the same time share a batch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from bottega.agents import writer
from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import ADMISSION, read
from bottega.agents.prompt_budget import PromptBudget
from bottega.agents.prompts import Prompts
from bottega.backbone.chat import Sampling
from bottega.backbone.client import Client, Generation
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.errors import LibraryError
from bottega.core.files import write_atomic
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.context import PROMPT_SHARE, BlockingJudge, seed_of
from bottega.episodes.phases import Phases, share_device
from bottega.languages import candidate_from


@dataclass(frozen=True)
class KernelFolder:
    path: Path

    def keep(self, candidate: Candidate) -> None:
        """From any thread or process: a file is there whole, or not at all."""
        place = self.path / f"{candidate.id}.py"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomic(place, candidate.source.encode())
        except OSError as error:
            raise LibraryError(
                f"{place}: a kernel cannot be kept: {error.strerror}; start the proof again when it can"
            ) from None

    def read(self, candidate_id: str) -> Candidate:
        place = self.path / f"{candidate_id}.py"
        try:
            return candidate_from(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise LibraryError(
                f"{place}: the kernel cannot be judged again: {error.strerror}; prove the card with another seed"
            ) from None


class AdmissionSampler:
    """Use it as a context manager: it owns the loop's thread, not the client and not the judge."""

    def __init__(
        self,
        client: Client,
        judge: BlockingJudge,
        prompts: Prompts,
        device: DeviceFacts,
        language: str,
        kernels: Path,
        *,
        temperature: float = 1.0,
        max_tokens: int = 2048,
        stop: tuple[str, ...] = (),
        baseline: str = "eager",
        judged_on: str | None = None,
        shared: Phases | None = None,
    ) -> None:
        """`judged_on`: the judge's device; `shared`: the phases of the model's, where the client does not tell them."""
        self.client, self.judge, self.prompts, self.device, self.language = client, judge, prompts, device, language
        self.kernels = KernelFolder(kernels)
        self.temperature, self.max_tokens, self.stop, self.baseline = temperature, max_tokens, stop, baseline
        self.judged_on, self.phases = judged_on, shared or share_device(client)
        self._read: dict[tuple[str, str], Candidate | str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="admission-sampler", daemon=True)

    def __enter__(self) -> AdmissionSampler:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self.client.close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def attempt(self, task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        """The same seed draws the same noise with and without the card. An answer without a kernel is worth nothing, and no error."""
        with self.phases.generating():
            answer = self._answer(task, skills, seed)
        candidate = self._candidate(task, answer.text)
        if isinstance(candidate, str):
            return Verdict(Outcome.COMPILE_ERROR, diagnosis=candidate, task_id=task.id)
        with self.phases.judging(self.judged_on):
            return self.judge.judge(task, candidate)

    def _candidate(self, task: Task, text: str) -> Candidate | str:
        """The kernel, kept, or why there is none. A proof draws few texts many times, and each is read and linked once: threads of one process take
        turns at it, and with many proofs side by side it took longer than drawing."""
        key = (task.id, text)
        if key not in self._read:
            found = read(text, AnswerContext(task.source, self.language, self.prompts.style), ADMISSION)
            self._read[key] = found.fault or candidate_from(found.source)
            if isinstance(kept := self._read[key], Candidate):
                self.kernels.keep(kept)
        return self._read[key]

    def _answer(self, task: Task, skills: Sequence[Skill], seed: int) -> Generation:
        callgraph = shared_tracer().trace(task) if self.prompts.shows("write", "callgraph") else None
        given = writer.WriterInput(task, self.language, self.device, tuple(skills), callgraph=callgraph, baseline=self.baseline)
        room = min(self.client.context - self.max_tokens, int(self.client.context * PROMPT_SHARE))
        messages = writer.messages(given, self.prompts, PromptBudget(max(room, 256), self.client.count_tokens))
        sampling = Sampling(self.max_tokens, self.temperature, seed=seed_of(seed, task.id), stop=self.stop)
        return asyncio.run_coroutine_threadsafe(self.client.generate(messages, sampling), self._loop).result()

    def confirm(self, task: Task, verdict: Verdict) -> Verdict:
        candidate = self.kernels.read(verdict.candidate_id)
        with self.phases.judging(self.judged_on):
            return self.judge.judge(task, candidate, quick=False)
