# ruff: noqa: E402 (what may be missing is asked for first)
"""The verifiers environment, in verifiers' own episodes, with a scripted model behind its interception."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "verifiers.v1", reason="pip install verifiers; it pins other versions than ours, so in an environment of its own"
)
pytestmark = pytest.mark.slow

import verifiers.v1 as vf
from chat_server import chat_server
from scripted_judge import KERNEL, ScriptedJudge, faster, lost
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

from bottega.service.environments.factory import SessionFactory
from bottega.service.environments.settings import EnvironmentSettings
from bottega.service.environments.verifiers_v1 import KernelEnv
from bottega.skills.library import Library
from bottega.skills.shipped import begin_library

CARD = {
    "name": "row_in_cache",
    "intent": "Read a row once and keep it in the cache for all that follows.",
    "scope": "family/norm",
    "tags": ["norm", "fusion"],
    "languages": ["cpp"],
    "devices": ["cpu"],
    "conditions": {
        "data_types": "float32 in and out.", "layout": "The reduced axis is contiguous.", "storage": "A row fits the cache.",
        "pipeline": "none", "hardware": "none",
    },
    "anchor": "Several loops over the same row.",
    "technique": "One loop over rows, two sweeps in it: first the sum of squares, then scale and store from the cache.",
    "example": "for (int64_t r = 0; r < rows; ++r) {}",
    "effect": "One read of memory instead of two.",
    "failures": ["A row that does not fit the cache is read twice."],
}  # fmt: skip


def environment(judge: ScriptedJudge, library: Library | None, **config: Any) -> KernelEnv:
    settings = EnvironmentSettings(turns=2, reward="kevin", style="full")
    told = {"taskset": {"id": "bottega-kernels", "tasks": ["builtin:star_relu", "builtin:rms_norm_rows"]}, **config}
    made = load_environment(resolve_env_config({**told, "kernels": settings.model_dump()}))
    assert isinstance(made, KernelEnv)
    made.factory = SessionFactory(settings, judge, library)
    return made


async def episode_of(made: KernelEnv, url: str, monkeypatch: pytest.MonkeyPatch) -> vf.Episode:
    monkeypatch.setenv("SCRIPTED_KEY", "none")
    client = EvalClientConfig(base_url=url, api_key_var="SCRIPTED_KEY")
    context = ModelContext(model="scripted", client=client, sampling=SamplingConfig())
    async with made.serving():
        (slot,) = made.slots(next(iter(made.taskset)))
        return await made.run_slot(slot, context)


def test_three_agents_play_and_each_is_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(tmp_path / "library")
    begin_library(library)
    judge = ScriptedJudge([faster(1.0), faster(2.0)], repeat=True)
    made = environment(judge, library, samples=1, proof_rounds=1)
    offered = made.factory.offered(made.factory.task_of({"task": "builtin:star_relu"}))[0].name
    asked: list[list[dict[str, Any]]] = []

    def answer(messages: list[dict[str, Any]]) -> str:
        asked.append(messages)
        first = messages[-1]["content"]
        if "Best attempt" in first:
            return "none"
        return f"{offered}: it fits" if "You choose" in messages[0]["content"] or "pick" in messages[0]["content"] else KERNEL

    with chat_server(answer) as url:
        episode = asyncio.run(episode_of(made, url, monkeypatch))
    assert episode.ok, episode.errors
    by_agent = episode.by_agent
    assert set(by_agent) == {"selector", "writer", "summariser"}
    assert len(by_agent["writer"]) == 2  # with the selection, and without any card
    assert all(trace.agent.trainable for traces in by_agent.values() for trace in traces)
    for trace in by_agent["writer"]:
        assert trace.num_turns == 2
        assert trace.rewards["kernel"].score == pytest.approx(2.3) and trace.reward == pytest.approx(2.3)
        assert trace.metrics["best"] == pytest.approx(1.8)
    assert by_agent["selector"][0].rewards["selection"].score == pytest.approx(2.3)
    assert by_agent["summariser"][0].rewards["uplift"].score == 0.0
    conversations = [messages for messages in asked if len(messages) == 4]
    assert conversations and "1.00x" in conversations[0][-1]["content"]  # the judge's words came as the next user turn


def test_a_proposed_card_goes_through_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    made = environment(ScriptedJudge([faster(1.0), faster(2.0)], repeat=True), None, samples=1, proof_rounds=1)
    with chat_server(lambda messages: json.dumps([CARD]) if "Best attempt" in messages[-1]["content"] else KERNEL) as url:
        episode = asyncio.run(episode_of(made, url, monkeypatch))
    assert episode.ok, episode.errors
    writers = episode.by_agent["writer"]
    assert [trace.agent.trainable for trace in writers] == [True, False, False, False, False]
    assert episode.by_agent["summariser"][0].rewards["uplift"].score == 0.0  # one round proves nothing


def test_a_lost_judge_is_the_episodes_error_and_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    made = environment(ScriptedJudge([lost()]), None, samples=1, proof_rounds=0)
    with chat_server(lambda messages: KERNEL) as url:
        episode = asyncio.run(episode_of(made, url, monkeypatch))
    assert not episode.ok and "worker was lost" in str(episode.errors[-1])
    assert not any(trace.rewards for trace in episode.traces)
