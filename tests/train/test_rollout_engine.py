"""Answers drawn by servers: the numbers of our own engine, weights by every way that runs without a GPU, and servers that die and come back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
httpx = pytest.importorskip("httpx")

from answering_server import GlooGroup  # noqa: E402
from killed_run import counted  # noqa: E402
from test_rl import EXACT, measured, same  # noqa: E402
from tiny import one_thread, weights  # noqa: E402, F401
from toy_world import ToyJudge, toy_config, toy_inputs, toy_loaded  # noqa: E402

from bottega.backbone import token_servers  # noqa: E402
from bottega.backbone.reply import NoServerError  # noqa: E402
from bottega.backbone.token_server import TokenServer  # noqa: E402
from bottega.core.candidate import Candidate  # noqa: E402
from bottega.core.errors import BackboneError, UsageError  # noqa: E402
from bottega.core.event import Wrote  # noqa: E402
from bottega.core.task import Task  # noqa: E402
from bottega.episodes.journal import read_events  # noqa: E402
from bottega.train import rl, weight_transfer  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.learner import Learner  # noqa: E402
from bottega.train.weight_transfer import (  # noqa: E402
    AdapterTransfer,
    NcclTransfer,
    ServedModel,
    address_towards,
    begin_update,
    free_port,
)

SHORT = [
    "data.steps=3", "rollout.tasks=2", "rollout.updates=1", "rollout.summaries=3", "ablations.frozen_library=true", "checkpoint.every=1",
    "rejection.mismatch.on=false", *EXACT,
]  # fmt: skip


@contextmanager
def serving(folder: Path, *servers: tuple[int, int | str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Servers by port; each ends itself at the completion of that number, 0 for never, or in another route: see there."""
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


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run by our own engine."""
    return run(tmp_path_factory.mktemp("own"))


def asked(folder: Path, port: int) -> list[str]:
    return (folder / f"asked-{port}").read_text().split()


@pytest.mark.rotates
def test_servers_draw_what_our_own_engine_draws(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, with the weights of every step in each of three ways; a broadcast goes over gloo in place of NCCL."""
    monkeypatch.setattr(weight_transfer, "_join_by_vllm", lambda place: GlooGroup(place, 0))
    ports = free_port(), free_port()
    routes = {"adapter": "/v1/load_lora_adapter", "disk": "/collective_rpc", "nccl": "/update_weights"}
    with serving(tmp_path, *((port, 0) for port in ports)):
        for sync, route in routes.items():  # adapters first: the others change what they are added to
            lora = ["model.lora.rank=8"] if sync == "adapter" else []
            for place in (tmp_path / sync, tmp_path / "own"):
                place.mkdir(exist_ok=True)
            there = run(tmp_path / sync, *at(*ports), f"rollout.sync={sync}", *lora)
            close(measured(there), measured(run(tmp_path / "own", *lora) if lora else own))
            turns = [e.turn for e in read_events(there / "steps" / "000003") if isinstance(e, Wrote)]
            assert {turn.policy_version for turn in turns} == {2} and all(turn.logprobs for turn in turns)
            assert all(asked(tmp_path, port).count(route) == 3 for port in ports), "each server got each version once"


def close(one: dict[str, dict[str, float]], other: dict[str, dict[str, float]]) -> None:
    """An adapter that is merged in another process is rounded as here; nothing else differs."""
    assert one.keys() == other.keys()
    for key, values in one.items():
        assert values == pytest.approx(other[key], rel=1e-4, abs=1e-5), key


@pytest.mark.rotates
def test_a_server_that_is_killed_changes_nothing(own: Path, tmp_path: Path) -> None:
    """It dies in the middle of the second step; its requests go to the other."""
    ports = free_port(), free_port()
    with serving(tmp_path, (ports[0], 0), (ports[1], 24)) as (_, dying):
        there = run(tmp_path, *at(*ports), "rollout.sync=disk")
        assert dying.wait(5) == -signal.SIGKILL, "it was not killed"
    assert measured(there) == measured(own) and same(weights(there), weights(own))


@pytest.mark.slow
@pytest.mark.parametrize(("sync", "moment"), [("adapter", "/v1/load_lora_adapter@2"), ("disk", "/collective_rpc@2")])
def test_a_server_that_is_killed_while_its_weights_change_changes_nothing(
    sync: str, moment: str, own: Path, tmp_path: Path
) -> None:
    """The other one draws alone from then on, by the new weights."""
    lora = ["model.lora.rank=8"] if sync == "adapter" else []
    if lora:
        (tmp_path / "own").mkdir()
        own = run(tmp_path / "own", *lora)
    ports = free_port(), free_port()
    with serving(tmp_path, (ports[0], 0), (ports[1], moment)) as (_, dying):
        there = run(tmp_path, *at(*ports), f"rollout.sync={sync}", *lora)
        assert dying.wait(5) == -signal.SIGKILL, "it was not killed"
    close(measured(there), measured(own))


@pytest.mark.rotates
def test_a_run_whose_last_server_died_goes_on_when_it_is_back(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that comes back is given the newest weights; what was drawn before is not drawn again."""
    monkeypatch.setattr(token_servers, "PATIENCE", 1.0)
    port = free_port()
    with serving(tmp_path, (port, 40)), pytest.raises(NoServerError, match=r"none of the 1 rollout servers answers"):
        run(tmp_path, *at(port), "rollout.sync=disk")
    with serving(tmp_path, (port, 0)):
        there = run(tmp_path, *at(port), "rollout.sync=disk", resume=True)
    assert measured(there) == measured(own) and same(weights(there), weights(own))


@pytest.mark.rotates
def test_kernels_are_not_judged_while_the_model_learns_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollouts ahead, whose answers servers draw: judge and trainer share a device all the same, and take turns on it."""
    learning, judged, beside = threading.Event(), threading.Event(), list[str]()
    plain = Learner.update

    def update(*given: Any, **options: Any) -> Any:
        judged.clear()
        learning.set()
        try:
            judged.wait(1.0)
            return plain(*given, **options)
        finally:
            learning.clear()

    def heard(task: Task, candidate: Candidate) -> None:
        judged.set()
        beside.append("beside" if learning.is_set() else "alone")

    monkeypatch.setattr(Learner, "update", update)
    port = free_port()
    with serving(tmp_path, (port, 0)):
        config = toy_config(tmp_path, *SHORT, *at(port), "rollout.sync=disk", "rollout.staleness=1", "ablations.skills=false")
        rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path, ToyJudge(heard)))
    assert set(beside) == {"alone"}


def broadcast() -> NcclTransfer:
    weights = toy_loaded().model.state_dict()
    return NcclTransfer(lambda: iter(weights.items()), torch.float32, join=lambda place: GlooGroup(place, 0))


def without(server: TokenServer, route: str) -> None:
    """A server that does not have the route."""
    asked = server.asked
    server.asked = lambda method, path, *rest, **more: asked(  # type: ignore[method-assign]
        method, "/refused" if path == route else path, *rest, **more
    )


@pytest.mark.rotates
def test_broadcasts_survive_servers_and_trainers_that_do_not_do_their_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early: list[float] = []
    waits = weight_transfer.wait

    def noted(*given: Any, **more: Any) -> Any:
        if more.get("timeout") == weight_transfer.EARLY_SECONDS:
            early.append(0.0)
        return waits(*given, **more)

    monkeypatch.setattr(weight_transfer, "wait", noted)
    ports = free_port(), free_port()
    with serving(tmp_path, *((port, 0) for port in ports)):

        def servers() -> list[TokenServer]:
            return [TokenServer(f"http://127.0.0.1:{port}") for port in ports]

        one, other = servers()
        begin_update(one)  # of a trainer that was killed then
        transfer = broadcast()
        assert transfer.send([one, other], 1) == {} and len(early) == 2, "an update that was left open is closed"
        assert transfer.send([one, other], 2) == {} and len(early) == 2, "who took part once is not waited for again"

        one, other = servers()
        without(other, "/get_world_size")
        told = broadcast().send([one, other], 3)
        assert list(told) == [other] and "answered with status 404" in told[other], "the other has its weights"

        for number, (route, says) in enumerate(
            {"/update_weights": "take part in a broadcast", "/init_weight_transfer_engine": "meet"}.items()
        ):
            one, other = servers()
            without(other, route)
            told = broadcast().send([one, other], 4 + number)
            assert "answered with status 404" in told[other] and f"refused to {says}" in told[one], (
                "the trainer waits for neither"
            )


def test_a_server_that_dies_in_a_broadcast_does_not_leave_the_trainer_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group stands for NCCL's, which waits for a lost member until it is destroyed; two GPUs would be needed for that one."""
    monkeypatch.setattr(weight_transfer, "REST_SECONDS", 0.2)
    begun, destroyed = threading.Event(), threading.Event()

    class Group:
        destroy = staticmethod(destroyed.set)

        def broadcast(self, *_: Any, **__: Any) -> None:
            begun.set()
            assert destroyed.wait(20)
            raise RuntimeError("the communicator was aborted")

    class Server:
        def __init__(self, name: str) -> None:
            self.address = f"http://{name}"

        def asked(self, method: str, path: str, *_: Any, **__: Any) -> dict[str, int]:
            if path == "/update_weights":
                assert begun.wait(20)
                if "dying" in self.address:
                    raise BackboneError("connection reset")
                assert destroyed.wait(20)
                raise BackboneError("the group was lost")
            return {"world_size": 1}

    weights = {"a": torch.ones(2), "b": torch.ones(2)}
    transfer = NcclTransfer(lambda: iter(weights.items()), torch.float32, host="here", join=lambda place: Group())
    one, dying = servers = [Server("one"), Server("dying")]
    told = transfer.send(servers, 1)  # type: ignore[arg-type]
    assert told[dying] == "connection reset"  # type: ignore[index]
    assert destroyed.is_set() and set(told) == {one, dying} and transfer._members == []


def test_servers_elsewhere_are_told_an_address_that_they_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = TokenServer("http://127.0.0.1:8000"), TokenServer("http://far:8000")

    class Way:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Way:
            return self

        def __exit__(self, *_: object) -> None: ...

        def connect(self, target: tuple[str, int]) -> None:
            self.target = target[0]

        def getsockname(self) -> tuple[str, int]:
            return ("127.0.0.1" if self.target == "127.0.0.1" else "10.0.0.7", 4711)

    monkeypatch.setattr(weight_transfer.socket, "getaddrinfo", lambda host, port, type: [(2, type, 0, "", (host, port))])
    monkeypatch.setattr(weight_transfer.socket, "socket", Way)
    assert address_towards([near]) == "127.0.0.1"
    assert address_towards([near, far]) == "10.0.0.7"


def test_what_is_shared_with_another_process_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_transfer, "CHUNK_BYTES", 40)
    own = {name: torch.ones(4, 2, dtype=torch.bfloat16).T for name in "abcd"}
    found = list(weight_transfer.chunks(own.items(), torch.bfloat16))
    assert [[name for name, _ in chunk] for chunk in found] == [["a", "b"], ["c", "d"]]
    assert all(value.is_contiguous() and value.data_ptr() != own[name].data_ptr() for chunk in found for name, value in chunk)


def test_adapters_of_two_sessions_have_names_of_their_own(tmp_path: Path) -> None:
    """A server may have cached what an adapter of that name came to."""

    class Model:
        def save_pretrained(self, folder: Path) -> None:
            (folder / "adapter.safetensors").touch()

    server = TokenServer("http://here:8000")
    loaded: list[str] = []
    server.models = lambda: ["base", *loaded]  # type: ignore[method-assign]

    def asked(method: str, path: str, body: dict[str, str], missing: bool = False) -> dict[str, str]:
        loaded.append(body["lora_name"]) if path == "/v1/load_lora_adapter" else loaded.remove(body["lora_name"])
        return {}

    server.asked = asked  # type: ignore[method-assign, assignment]
    names = []
    for _ in range(2):
        assert AdapterTransfer(Model, tmp_path).send([server], 3) == {}
        assert loaded == [server.model], "the one before it is gone"
        names.append(server.model)
    assert names[0] != names[1]


def test_servers_that_are_away_when_a_run_begins_are_left_out_and_may_come_later() -> None:
    """The name of the model is asked of those that are there; one that comes back may have another."""
    there, away = TokenServer("http://there:8000"), TokenServer("http://away:8000")
    names = {there: ["one"]}

    def models(server: TokenServer) -> list[str]:
        if server not in names:
            raise BackboneError("cannot be reached")
        return names[server]

    for server in (there, away):
        server.models = partial(models, server)  # type: ignore[method-assign]
    sent: list[list[TokenServer]] = []

    class Sending:
        def send(self, servers: Sequence[TokenServer], version: int) -> dict[TokenServer, str]:
            sent.append(list(servers))
            return {}

    transfer = ServedModel(Sending())
    assert transfer.send([there, away], 1) == {away: "cannot be reached"} and sent == [[there]] and there.model == "one"
    names.update({there: ["two"], away: ["one"]})
    assert transfer.send([there, away], 2) == {} and (there.model, away.model) == ("two", "one")


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
