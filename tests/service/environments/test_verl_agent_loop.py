# ruff: noqa: E402 (what may be missing is asked for first)
"""The agent loop in verl's own classes: its tokens and masks are real, its rollout server is scripted, since a real one needs a GPU."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip(
    "verl.experimental.agent_loop", reason="pip install verl, in an environment of its own: it pins transformers"
)
pytestmark = pytest.mark.slow

from bytes_tokenizer import bytes_tokenizer
from omegaconf import OmegaConf
from scripted_judge import KERNEL, ScriptedJudge, faster, lost
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from bottega.service.environments.factory import SessionFactory
from bottega.service.environments.settings import EnvironmentSettings
from bottega.service.environments.verl_agent_loop import KernelAgentLoop


class ScriptedServer:
    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.prompts: list[str] = []

    async def generate(self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        self.prompts.append(self.tokenizer.decode(prompt_ids))
        ids = self.tokenizer(KERNEL + "<|im_end|>", add_special_tokens=False)["input_ids"]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


async def ran(judge: ScriptedJudge, length: int = 8192) -> tuple[Any, ScriptedServer, Any]:
    tokenizer = bytes_tokenizer()
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"prompt_length": 16384, "response_length": length}}})
    server = ScriptedServer(tokenizer)
    factory = SessionFactory(EnvironmentSettings(turns=2, reward="kevin", style="full"), judge)
    data = DictConfigWrap(OmegaConf.create({}))
    loop = KernelAgentLoop(
        trainer_config=DictConfigWrap(config), server_manager=server, tokenizer=tokenizer, processor=None,
        dataset_cls=RLHFDataset, data_config=data, settings=factory,
    )  # fmt: skip
    return await loop.run({}, extra_info={"task": "builtin:star_relu"}), server, tokenizer


def test_the_judges_words_are_masked_and_the_best_turn_counts() -> None:
    output, server, tokenizer = asyncio.run(ran(ScriptedJudge([faster(1.0), faster(2.0)])))
    assert output.reward_score == pytest.approx(2.3) and output.num_turns == 4
    assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs)
    own = tokenizer.decode([token for token, mask in zip(output.response_ids, output.response_mask) if mask])
    told = tokenizer.decode([token for token, mask in zip(output.response_ids, output.response_mask) if not mask])
    assert own.count("class ModelNew") == 2 and "1.00x" not in own
    assert "1.00x" in told and "ModelNew(torch" not in told
    assert "class Model" in tokenizer.decode(output.prompt_ids) and "1.00x" in server.prompts[1]


def test_rows_that_nobody_could_judge_train_nothing() -> None:
    output, _, _ = asyncio.run(ran(ScriptedJudge([lost()])))
    assert output.reward_score == 0 and not any(output.response_mask)


def test_a_response_that_is_full_ends_the_session() -> None:
    output, server, _ = asyncio.run(ran(ScriptedJudge([faster(1.0)]), length=64))
    assert len(output.response_ids) == 64 and len(server.prompts) == 1
