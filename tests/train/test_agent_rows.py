"""An agent's conversation as training data: the model's tokens are learned, what tools returned is context, and steps share their kernel's credit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from episodes.agent_search import kernel, searched
from scripted_tokens import ByteTokenizer, ScriptedTokens

from bottega.backbone.client import TokenClient
from bottega.core.episode import Episode
from bottega.core.trace import Trace
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.train.advantages import advantage_named
from bottega.train.conversations import Conversation
from bottega.train.credit import advantages_by_turn, writing_credits
from bottega.train.rewards.verdict_reader import VerdictReader
from bottega.train.rollout_metrics import rollout_metrics
from bottega.train.rows import policy_rows


def reward(verdict: Verdict | None) -> float:
    return verdict.speedup["eager"].point if verdict is not None and verdict.speedup else 0.0


def episode(name: str, *traces: Trace) -> Episode:
    return Episode(name, "task", "task", "", "cpu", 0, (), ((),), traces)


def step(*tools: str, speed: float | None = None, fault: str = "") -> Turn:
    speedup = {} if not speed else {"eager": Speedup(speed, speed, speed)}
    verdict = None if speed is None else Verdict(Outcome.FASTER if speed else Outcome.INCORRECT, bool(speed), speedup)
    return Turn("write", "", tools=tools, verdict=verdict, fault=fault, output_tokens=1)


def credits(*traces: Trace) -> dict[tuple[str, int], float]:
    return advantages_by_turn(writing_credits([episode("e", *traces)], reward, advantage_named("trloo", False)))


def test_steps_share_the_credit_of_the_kernel_that_they_led_to() -> None:
    one = Trace(
        "one",
        "write",
        (step("read"), step("write"), step("judge", speed=3.0), step("edit"), step("judge", speed=4.0), step("finish")),
    )
    two = Trace("two", "write", (step("judge", speed=1.0), step("judge", speed=0.0)))
    found = credits(one, two)
    assert one.by_kernel == ((0, 1, 2), (3, 4))
    assert {found["one", turn] for turn in (0, 1, 2)} == {found["one", 2]} and found["one", 2] > 0 > found["two", 0]
    assert found["one", 3] == found["one", 4] and ("one", 5) not in found


def test_a_broken_call_is_not_praised_and_an_agent_without_a_kernel_has_failed() -> None:
    one = Trace("one", "write", (step(fault="no JSON"), step("judge", speed=3.0)))
    none = Trace("none", "write", (step("read"), step("read")))
    found = credits(one, none)
    assert ("one", 0) not in found and found["one", 1] > 0
    assert found["none", 1] < 0 and found["none", 0] == found["none", 1]
    assert none.verdicts == (None,) and len(one.verdicts) == 1


def test_metrics_are_of_kernels_and_tokens_of_all_steps() -> None:
    trace = Trace("one", "write", (step("read"), step("judge", speed=3.0), step("judge", speed=0.0)))
    found = rollout_metrics([episode("e", trace)], reward, VerdictReader())
    assert found["correct"] == 0.5 and found["reward"] == 1.5 and found["tokens/drawn"] == 3
    assert found["turn2/correct"] == 0 and "turn3/correct" not in found and found["unjudged"] == 0


def test_the_models_tokens_are_learned_and_results_are_context(tmp_path: Path) -> None:
    answers = [
        '```json\n{"tool": "read", "path": "task.py"}\n```',
        f'```json\n{{"tool": "write", "path": "kernel.py"}}\n```\n```python\n{kernel(2.0)}```',
        '```json\n{"tool": "judge"}\n```',
    ]
    place = searched(tmp_path, TokenClient(ScriptedTokens(answers)), turns=1)
    (trace,) = place.traces
    assert trace.trainable
    other = Trace("other", "write", (step("judge", speed=1.0),))
    (row,) = policy_rows([trace], credits(trace, other), longest=100_000).rows
    assert row.answers == 3, "the prompts of a conversation begin with each other, so that it is one row"
    tokens = ByteTokenizer()
    learned, context = (tokens.decode(row.ids[row.policy == weight].tolist()) for weight in (1, 0))
    assert learned == "".join(answers)
    assert "Result of read:\nimport torch" in context and "def get_inputs" not in learned
    assert np.all(row.advantage[row.policy == 1] > 0)


def test_a_step_survives_the_log() -> None:
    for turn in (step("read", "judge", speed=2.0), step(), Turn("write", "")):
        assert Turn.from_json(json.loads(json.dumps(turn.to_json()))) == turn


def test_rows_of_other_agents_are_read_in_the_plain_form() -> None:
    call = {"id": "7", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    rows: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "a file", "tool_call_id": "7"},
        {"role": "assistant", "content": "Done."},
    ]
    plain = Conversation.model_validate({"messages": rows}).plain
    assert [said.role for said in plain] == ["user", "assistant", "user", "assistant"]
    assert (
        plain[1].content == '```json\n{"tool": "read", "path": "a.py"}\n```' and plain[2].content == "Result of read:\na file"
    )
