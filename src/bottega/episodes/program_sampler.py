"""Attempts by a foreign program, for the gate: it reads what is wanted as JSON, and prints a candidate, which is judged here."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bottega.core.errors import BackboneError, UsageError
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.admission_sampler import KernelFolder
from bottega.episodes.context import BlockingJudge
from bottega.languages import candidate_from

WRITING_S = 600


class ProgramSampler:
    def __init__(self, kernels: Path, judge: BlockingJudge, command: str, device: str, language: str) -> None:
        self.kernels, self.judge, self.device, self.language = KernelFolder(kernels), judge, device, language
        try:
            self.command = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--writer {command!r} is no command line: {error}") from None
        if not self.command:
            raise UsageError("--writer is empty; give the command that writes a candidate")

    def attempt(self, task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        wanted = {"task": task.source, "name": task.name, "skills": [skill.to_json() for skill in skills], "seed": seed}
        candidate = candidate_from(self._written(json.dumps({**wanted, "language": self.language, "device": self.device})))
        self.kernels.keep(candidate)
        return self.judge.judge(task, candidate)

    def confirm(self, task: Task, verdict: Verdict) -> Verdict:
        return self.judge.judge(task, self.kernels.read(verdict.candidate_id), quick=False)

    def _written(self, question: str) -> str:
        try:
            done = subprocess.run(
                self.command,
                input=question,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=WRITING_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackboneError(f"the writer {self.command[0]!r} gave no candidate: {error}") from None
        if done.returncode:
            raise BackboneError(
                f"the writer {self.command[0]!r} failed with exit code {done.returncode}: {done.stderr.strip()[-400:]}"
            )
        return done.stdout
