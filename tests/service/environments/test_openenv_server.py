# ruff: noqa: E402 (what may be missing is asked for first)
"""The OpenEnv server on a real port, spoken to by OpenEnv's own client."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("openenv", reason="pip install openenv")
pytestmark = pytest.mark.slow

import uvicorn
from scripted_judge import KERNEL, ROOT, ScriptedJudge, faster, lost
from waiting import until

from bottega.service.environments.factory import SessionFactory
from bottega.service.environments.openenv_server import KernelAction, KernelEnvClient, openenv_app
from bottega.service.environments.settings import EnvironmentSettings


@contextmanager
def served(factory: SessionFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(openenv_app(factory), host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, seconds=60)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)


async def played(url: str, answers: list[str]) -> list[tuple[float | None, bool, str]]:
    seen = []
    async with KernelEnvClient(base_url=url, message_timeout_s=240) as env:
        begun = await env.reset(task="builtin:star_relu")
        assert "class Model" in begun.observation.messages[-1]["content"] and not begun.done
        for answer in answers:
            result = await env.step(KernelAction(text=answer))
            seen.append((result.reward, result.done, result.observation.feedback))
        state = await env.state()
        assert state.task == "star_relu" and state.step_count == sum(reward is not None for reward, _, _ in seen)
    return seen


def test_sessions_side_by_side_and_a_lost_judge() -> None:
    judge = ScriptedJudge([lost(), *[faster(2.0)] * 4])
    with served(SessionFactory(EnvironmentSettings(turns=2, reward="kevin", style="full"), judge)) as url:
        first = asyncio.run(played(url, [KERNEL, KERNEL, KERNEL]))

        async def two() -> list[list[tuple[float | None, bool, str]]]:
            return await asyncio.gather(played(url, [KERNEL]), played(url, ["no kernel"]))

        with_kernel, without = asyncio.run(two())
    assert [reward for reward, _, _ in first] == [None, pytest.approx(2.3), pytest.approx(2.3)]
    assert [done for _, done, _ in first] == [False, False, True]
    assert "lost" in first[0][2]
    assert with_kernel[0][0] == pytest.approx(2.3) and without[0][0] == 0


def test_a_client_cannot_have_a_file_of_the_server_opened() -> None:
    async def asked(url: str) -> None:
        async with KernelEnvClient(base_url=url) as env:
            await env.reset(task="/etc/passwd")

    with served(SessionFactory(EnvironmentSettings(), ScriptedJudge([]))) as url, pytest.raises(Exception, match="source"):
        asyncio.run(asked(url))


def test_a_real_rollout() -> None:
    kernel = f"```python\n{(ROOT / 'examples/star_relu.py').read_text()}\n```"
    with SessionFactory(EnvironmentSettings(turns=1)) as factory, served(factory) as url:
        ((reward, done, feedback),) = asyncio.run(played(url, [kernel]))
    assert done and reward is not None and reward > 0.5, feedback
