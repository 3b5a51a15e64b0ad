"""TRL's environment: its tool by hand, and a training step of a real GRPOTrainer whose tiny model is made to say what a script says."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from bytes_tokenizer import bytes_tokenizer
from scripted_judge import KERNEL, ScriptedJudge, faster, lost, wrong

from bottega.service.environments.factory import SessionFactory
from bottega.service.environments.settings import EnvironmentSettings
from bottega.service.environments.trl_env import KernelEnvironment, dataset_rows, environment_factory

SOURCE = KERNEL.split("```python\n")[1].split("```")[0]
ROW = {"task": "builtin:star_relu"}


def environment(judge: ScriptedJudge) -> KernelEnvironment:
    return KernelEnvironment(SessionFactory(EnvironmentSettings(turns=2, reward="kevin", style="full"), judge))


def test_the_tool_judges_until_the_session_is_over() -> None:
    made = environment(ScriptedJudge([wrong(), faster(2.0)]))
    assert "judge_kernel" in made.reset(**ROW)
    assert "Element 3" in asyncio.run(made.judge_kernel(SOURCE))
    assert "2.00x" in asyncio.run(made.judge_kernel(SOURCE))
    assert "No more" in asyncio.run(made.judge_kernel(SOURCE))
    assert made.get_reward() == pytest.approx(2.3)


def test_a_rollout_without_a_kernel_earns_nothing_and_a_lost_judge_says_nothing() -> None:
    made = environment(ScriptedJudge([lost(), faster(2.0)]))
    made.reset(**ROW)
    assert made.get_reward() == 0
    assert "not its fault" in asyncio.run(made.judge_kernel(SOURCE))
    assert made.get_reward() is None
    made.reset(**ROW)
    assert made.get_reward() == 0  # nothing is left of the rollout before


def test_the_factory_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(environment_factory(EnvironmentSettings(turns=3))))
    assert isinstance(copy(), KernelEnvironment)


@pytest.mark.slow
def test_a_training_step_of_grpo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trl = pytest.importorskip("trl", reason="pip install trl")
    import torch
    from datasets import Dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = bytes_tokenizer((Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text())
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=32768, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    call = json.dumps({"name": "judge_kernel", "arguments": {"source": SOURCE}})
    script = [f"<tool_call>\n{call}\n</tool_call>", "That is the best I can do."]

    class Scripted(Qwen2ForCausalLM):
        def generate(self, input_ids: torch.Tensor, **options: Any) -> torch.Tensor:
            text = script[0] if "<tool_response>" not in tokenizer.decode(input_ids[0]) else script[1]
            said = tokenizer(text + tokenizer.eos_token, return_tensors="pt", add_special_tokens=False)["input_ids"]
            return torch.cat([input_ids, said.expand(len(input_ids), -1)], 1)

    judge = ScriptedJudge([faster(1.0), faster(2.0)])
    settings = EnvironmentSettings(turns=1, reward="kevin", style="terse")  # short, since every byte is a token
    rewards: list[float | None] = []

    class Watched(KernelEnvironment):
        def get_reward(self) -> float | None:
            rewards.append(super().get_reward())
            return rewards[-1]

    factory = SessionFactory(settings, judge)
    rows = dataset_rows(["builtin:star_relu"], settings)
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path), max_steps=1, per_device_train_batch_size=2, num_generations=2, max_completion_length=4096,
        report_to=[], use_cpu=True, save_strategy="no", logging_steps=1, disable_tqdm=True, beta=0.0,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=Scripted(config), args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer,
        environment_factory=lambda: Watched(factory), reward_funcs=[],
    )  # fmt: skip
    trainer.train()
    assert len(judge.asked) == 2  # both rollouts called the tool
    assert rewards == [pytest.approx(1.3), pytest.approx(2.3)]
    logged = next(row for row in trainer.state.log_history if "reward" in row)
    assert logged["reward"] == pytest.approx(1.8) and logged["tools/call_frequency"] == 1.0
