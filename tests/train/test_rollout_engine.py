"""Answers drawn by servers: the numbers of our own engine, weights by every way that runs without a GPU, and servers that die and come back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
httpx = pytest.importorskip("httpx")

from answering_server import GlooGroup  # noqa: E402
from killed_run import counted  # noqa: E402
from test_rl import EXACT, measured, same, weights  # noqa: E402
from tiny import one_thread  # noqa: E402, F401
from toy_world import toy_config, toy_inputs  # noqa: E402

from bottega.core.errors import BottegaError, UsageError  # noqa: E402
from bottega.core.event import Wrote  # noqa: E402
from bottega.episodes.journal import read_events  # noqa: E402
from bottega.train import rl, rollout_engine, weight_transfer  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.weight_transfer import free_port  # noqa: E402

SHORT = [
    "data.steps=3", "rollout.tasks=2", "rollout.updates=1", "rollout.summaries=3", "ablations.frozen_library=true", "checkpoint.every=1",
    "rejection.mismatch.on=false", *EXACT,
]  # fmt: skip


@contextmanager
def serving(folder: Path, *servers: tuple[int, int]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Servers by port; each ends itself at the completion of that number, 0 for never."""
    script = str(Path(__file__).parent / "answering_server.py")
    started = [subprocess.Popen([sys.executable, script, str(folder), str(port), str(last)]) for port, last in servers]
    try:
        for process, (port, _) in zip(started, servers, strict=True):
            while not is_up(port):
                assert process.poll() is None, "a server did not start"
                time.sleep(0.1)
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def is_up(port: int) -> bool:
    try:
        return bool(httpx.get(f"http://127.0.0.1:{port}/health", timeout=5.0).status_code == 200)
    except httpx.HTTPError:
        return False


def run(folder: Path, *overrides: str, resume: bool = False) -> Path:
    config = toy_config(folder, *SHORT, *overrides)
    rl.train(config, folder / "run", resume=resume, inputs=toy_inputs(folder, counted(folder)))
    return folder / "run"


def at(*ports: int) -> list[str]:
    return ["rollout.engine=server", "rollout.servers=" + json.dumps([f"http://127.0.0.1:{port}" for port in ports])]


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Path]:
    """The same run by our own engine."""

    def ran(*overrides: str) -> Path:
        (tmp_path / "own").mkdir()
        return run(tmp_path / "own", *overrides)

    return ran


def asked(folder: Path, port: int) -> list[str]:
    return (folder / f"asked-{port}").read_text().split()


@pytest.mark.rotates
@pytest.mark.parametrize("sync", ["adapter", "disk", "nccl"])
def test_servers_draw_what_our_own_engine_draws(
    sync: str, own: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them, with the weights of every step; a broadcast over gloo in place of NCCL."""
    monkeypatch.setattr(weight_transfer, "_join_by_vllm", lambda place: GlooGroup(place, 0))
    monkeypatch.setattr(rollout_engine, "_host", lambda: "127.0.0.1")
    lora = ["model.lora.rank=8"] if sync == "adapter" else []
    ports = free_port(), free_port()
    with serving(tmp_path, *((port, 0) for port in ports)):
        there = run(tmp_path, *at(*ports), f"rollout.sync={sync}", *lora)
    here = own(*lora)
    close(measured(there), measured(here))
    turns = [e.turn for e in read_events(there / "steps" / "000003") if isinstance(e, Wrote)]
    assert {turn.policy_version for turn in turns} == {2} and all(turn.logprobs for turn in turns)
    routes = {"adapter": "/v1/load_lora_adapter", "disk": "/collective_rpc", "nccl": "/update_weights"}
    assert all(asked(tmp_path, port).count(routes[sync]) == 3 for port in ports), "each server got each version once"


def close(one: dict[str, dict[str, float]], other: dict[str, dict[str, float]]) -> None:
    """An adapter that is merged in another process is rounded as here; nothing else differs."""
    assert one.keys() == other.keys()
    for key, values in one.items():
        assert values == pytest.approx(other[key], rel=1e-4, abs=1e-5), key


@pytest.mark.rotates
def test_a_server_that_is_killed_changes_nothing(own: Callable[..., Path], tmp_path: Path) -> None:
    """It dies in the middle of the second step; its requests go to the other."""
    ports = free_port(), free_port()
    with serving(tmp_path, (ports[0], 0), (ports[1], 24)) as (_, dying):
        there = run(tmp_path, *at(*ports), "rollout.sync=disk")
        assert dying.wait(5) == -signal.SIGKILL, "it was not killed"
    here = own()
    assert measured(there) == measured(here) and same(weights(there), weights(here))


@pytest.mark.rotates
def test_a_run_whose_last_server_died_goes_on_when_it_is_back(
    own: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that comes back is given the newest weights; what was drawn before is not drawn again."""
    monkeypatch.setattr(rollout_engine, "TokenServers", impatient())
    port = free_port()
    with serving(tmp_path, (port, 40)), pytest.raises(BottegaError, match=r"none of the 1 rollout servers answers"):
        run(tmp_path, *at(port), "rollout.sync=disk")
    with serving(tmp_path, (port, 0)):
        there = run(tmp_path, *at(port), "rollout.sync=disk", resume=True)
    here = own()
    assert measured(there) == measured(here) and same(weights(there), weights(here))


def impatient() -> Any:
    from functools import partial

    from bottega.backbone.token_servers import TokenServers

    return partial(TokenServers, patience=1.0)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["rollout.engine=server"], "go together"),
        (['rollout.servers=["http://here:8000"]'], "go together"),
        (["rollout.sync=nccl"], "sync is for engine"),
        (["rollout.engine=server", 'rollout.servers=["http://here:8000"]', "rollout.sync=adapter"], "there is none"),
    ],
)
def test_settings_that_cannot_be_are_refused(overrides: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_config("rl", None, None, overrides)
