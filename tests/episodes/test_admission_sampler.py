"""Attempts by the backbone, as the gate asks for them. The judge is a stand-in: what it is given is what matters here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bottega.agents.answers.pipeline import read
from bottega.agents.prompts import Prompts
from bottega.backbone.client import ChatClient
from bottega.backbone.scripted import ScriptedChat
from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.errors import LibraryError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes import admission_sampler as module
from bottega.episodes.admission_sampler import AdmissionSampler
from bottega.skills.starter import starter_cards

TASK = Task("import torch\nclass Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n", name="made_up")
KERNEL = "One pass.\n```python\nclass ModelNew:\n    pass\n```\n"
DEVICE = DeviceFacts("cpu", "a CPU", "x86_64", 2, 8.0)


class Recorder:
    """Says that everything is twice as fast, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Candidate, dict[str, object]]] = []

    def judge(self, task: Task, candidate: Candidate, **options: object) -> Verdict:
        self.asked.append((candidate, options))
        return Verdict(Outcome.FASTER, True, {"eager": Speedup(2.0, 1.9, 2.1)}, task_id=task.id, candidate_id=candidate.id)


def admission_sampler(chat: ScriptedChat, judge: Recorder, kernels: Path) -> AdmissionSampler:
    return AdmissionSampler(ChatClient(chat), judge, Prompts("compact"), DEVICE, "cpp", kernels)


def test_the_card_is_in_the_prompt_of_one_arm_only_and_both_draw_alike(tmp_path: Path) -> None:
    chat, judge = ScriptedChat(lambda messages, sampling: KERNEL), Recorder()
    card = next(card for card in starter_cards() if card.languages == ("cpp",))
    with admission_sampler(chat, judge, tmp_path / "kernels") as writer, ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda skills: writer.attempt(TASK, skills, 7), [(card,), ()]))
    assert [verdict.outcome for verdict in verdicts] == [Outcome.FASTER, Outcome.FASTER]
    prompts = ["\n".join(message.content for message in asked.messages) for asked in chat.asked]
    assert sorted(card.intent in prompt for prompt in prompts) == [False, True]
    assert len({asked.sampling.seed for asked in chat.asked}) == 1


def test_a_kept_kernel_is_judged_again_in_full(tmp_path: Path) -> None:
    judge = Recorder()
    with admission_sampler(ScriptedChat([KERNEL]), judge, tmp_path / "kernels") as writer:
        verdict = writer.attempt(TASK, (), 0)
        writer.confirm(TASK, verdict)
    first, again = judge.asked
    assert first[0].source == again[0].source and again[1] == {"quick": False}


def test_a_text_is_read_once_and_judged_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr(module, "read", lambda text, *rest: texts.append(text) or read(text, *rest))
    judge, other = Recorder(), Task(TASK.source + "value = 1\n", name="another")
    with admission_sampler(ScriptedChat(lambda messages, sampling: KERNEL), judge, tmp_path / "kernels") as writer:
        verdicts = [writer.attempt(task, (), seed) for task in (TASK, other) for seed in range(3)]
    assert len(texts) == 2 and len(judge.asked) == 6, "once for each task"
    assert all(verdict.outcome is Outcome.FASTER for verdict in verdicts)


def test_an_answer_without_a_kernel_is_worth_nothing_and_no_error(tmp_path: Path) -> None:
    judge = Recorder()
    with admission_sampler(ScriptedChat(["I cannot."]), judge, tmp_path / "kernels") as writer:
        verdict = writer.attempt(TASK, (), 0)
    assert verdict.outcome is Outcome.COMPILE_ERROR and verdict.diagnosis and not judge.asked


def test_a_kernel_that_is_gone_says_so(tmp_path: Path) -> None:
    gone = Verdict(Outcome.FASTER, True, candidate_id="feedfacefeedface")
    with admission_sampler(ScriptedChat([]), Recorder(), tmp_path) as writer, pytest.raises(LibraryError, match="another seed"):
        writer.confirm(TASK, gone)


def test_what_is_judged_and_kept_is_the_completed_file(tmp_path: Path) -> None:
    judge = Recorder()
    with admission_sampler(ScriptedChat(["```python\nclass ModelNew(Model):\n    pass\n```"]), judge, tmp_path) as writer:
        verdict = writer.attempt(TASK, (), 0)
    source = judge.asked[0][0].source
    assert "class Model:" in source and "get_inputs" not in source
    assert (tmp_path / f"{verdict.candidate_id}.py").read_text() == source
