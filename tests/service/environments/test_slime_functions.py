"""slime's two functions against stand-ins of its documented interface: slime itself needs Megatron and SGLang."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from bytes_tokenizer import bytes_tokenizer
from scripted_judge import KERNEL, ScriptedJudge, faster, lost

from bottega.service.environments.factory import SessionFactory
from bottega.service.environments.settings import EnvironmentSettings
from bottega.service.environments.slime_functions import custom_rm, generate

TOKENIZER = bytes_tokenizer()


@dataclass
class Sample:
    """The fields of slime's that are used."""

    class Status(Enum):
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"

    metadata: dict[str, Any] = field(default_factory=lambda: {"task": "builtin:star_relu"})
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    status: Status | None = None
    remove_sample: bool = False


def ran(
    judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, reason: str = "stop"
) -> tuple[Sample, list[dict[str, Any]], Any]:
    asked: list[dict[str, Any]] = []

    async def post(url: str, payload: dict[str, Any]) -> dict[str, Any]:
        asked.append({"url": url, **payload})
        ids = TOKENIZER(KERNEL + "<|im_end|>", add_special_tokens=False)["input_ids"]
        rows = [[-0.5, token, None] for token in ids]
        return {"text": KERNEL, "meta_info": {"finish_reason": {"type": reason}, "output_token_logprobs": rows}}

    state, http = ModuleType("slime.rollout.sglang_rollout"), ModuleType("slime.utils.http_utils")
    state.GenerateState = lambda args: SimpleNamespace(tokenizer=TOKENIZER)  # type: ignore[attr-defined]
    http.post = post  # type: ignore[attr-defined]
    parents = {name: ModuleType(name) for name in ("slime", "slime.rollout", "slime.utils")}
    for name, module in {**parents, state.__name__: state, http.__name__: http}.items():
        monkeypatch.setitem(sys.modules, name, module)
    factory = SessionFactory(EnvironmentSettings(turns=2, reward="kevin", style="full"), judge)
    args = SimpleNamespace(bottega=factory, sglang_router_ip="10.0.0.1", sglang_router_port=3000)
    sample = asyncio.run(generate(args, Sample(), {"temperature": 1.0}))
    return sample, asked, asyncio.run(custom_rm(args, sample))


def test_two_turns_with_masked_feedback_and_one_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, asked, reward = ran(ScriptedJudge([faster(1.0), faster(2.0)]), monkeypatch)
    assert reward == pytest.approx(2.3) and sample.status is Sample.Status.COMPLETED and not sample.remove_sample
    assert asked[0]["url"] == "http://10.0.0.1:3000/generate" and asked[0]["return_logprob"]
    assert sample.loss_mask is not None and sample.rollout_log_probs is not None
    assert sample.response_length == len(sample.loss_mask) == len(sample.rollout_log_probs)
    response = sample.tokens[-sample.response_length :]
    told = TOKENIZER.decode([token for token, mask in zip(response, sample.loss_mask) if not mask])
    assert told.startswith("\n<|im_start|>user\n") and told.endswith("<|im_start|>assistant\n") and "1.00x" in told
    assert asked[1]["input_ids"] == sample.tokens[: len(asked[1]["input_ids"])]
    conversation = TOKENIZER.decode(sample.tokens)
    assert conversation.count("<|im_start|>") == 5 and conversation.count("<|im_end|>") == 5  # as the template would have it


@pytest.mark.parametrize(("reason", "status"), [("length", Sample.Status.TRUNCATED), ("abort", Sample.Status.ABORTED)])
def test_what_ends_early_is_said(reason: str, status: Sample.Status, monkeypatch: pytest.MonkeyPatch) -> None:
    sample, asked, _ = ran(ScriptedJudge([faster(1.0)]), monkeypatch, reason)
    assert sample.status is status and len(asked) == 1


def test_a_sample_that_nobody_could_judge_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, _, reward = ran(ScriptedJudge([lost()]), monkeypatch)
    assert sample.remove_sample and reward == 0
