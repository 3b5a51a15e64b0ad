"""Servers that give token ids: what is asked of them, what counts as an answer, and where a request goes when one fails."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from misbehaving import Command, Handler, Misbehaving, body, break_off, error, hang, misbehaving, page
from small_models import word_tokenizer

pytest.importorskip("httpx")

from bottega.backbone import token_server, token_servers
from bottega.backbone.chat import Sampling, TokenCompletion, TokenRequest
from bottega.backbone.reply import ContextError, GarbageError, NoServerError, UnreachableError
from bottega.backbone.token_server import TokenServer, read_completion
from bottega.backbone.token_servers import TokenServers
from bottega.core.errors import BackboneError

ASKED = TokenRequest((5, 6), Sampling(max_tokens=4, seed=3, stop=("END",)))


def drawn(ids: Sequence[int] = (7, 8), finish: str = "stop", **choice: Any) -> dict[str, Any]:
    logprobs = {"token_logprobs": [-0.5] * len(ids)}
    return {"choices": [{"token_ids": list(ids), "logprobs": logprobs, "finish_reason": finish, "text": "", **choice}]}


class NoTransfer:
    """Weights that need not be sent; `down` are servers that cannot take them."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[TokenServer], int]] = []
        self.down: list[TokenServer] = []

    def send(self, servers: Sequence[TokenServer], version: int) -> dict[TokenServer, str]:
        self.sent.append((list(servers), version))
        return {server: "it is down" for server in servers if server in self.down}


@contextmanager
def serving(*commands: Sequence[Command]) -> Iterator[tuple[list[Misbehaving], TokenServers, NoTransfer]]:
    """A server for each row of commands, one for each request."""
    with ExitStack() as stack:
        servers = [stack.enter_context(misbehaving(*row, *[body(drawn())] * 20)) for row in commands]
        transfer = NoTransfer()
        pool = TokenServers("small", word_tokenizer(), [TokenServer(server.url, "") for server in servers], transfer)
        pool.weights_changed(0)
        try:
            yield servers, pool, transfer
        finally:
            asyncio.run(pool.close())


def complete(pool: TokenServers, *requests: TokenRequest) -> list[TokenCompletion]:
    return asyncio.run(pool.complete(requests or [ASKED]))


def test_what_is_asked_and_what_comes_back() -> None:
    with serving([]) as ((server,), pool, _):
        pool.weights_changed(3)
        (found,) = complete(pool)
        assert found == TokenCompletion((7, 8), (-0.5, -0.5), "stop", 3)
        asked = server.requests[0]
        assert asked["prompt"] == [5, 6] and asked["stop"] == ["END"] and asked["seed"] == 3 and asked["return_token_ids"]
        assert (asked["temperature"], asked["top_p"], asked["top_k"], asked["min_p"]) == (1.0, 1.0, -1, 0.0)
        assert asked["stop_token_ids"] == list(word_tokenizer().ends) and asked["ignore_eos"]


@pytest.mark.rotates
@pytest.mark.parametrize("command", [error(500), error(503), page(502), break_off, body(drawn(finish="abort"))])
def test_a_request_that_fails_goes_to_another_server_and_the_one_that_is_well_stays(command: Command) -> None:
    """Which of the two is asked first depends on the prompt: both fail once."""
    with serving([command], [command]) as (servers, pool, _):
        assert complete(pool)[0].output_ids == (7, 8)
        assert sum(len(server.requests) for server in servers) == 3
        assert all(server.alive for server in pool.servers)


@pytest.mark.parametrize("status", [429, 503])
def test_servers_that_take_no_more_requests_now_are_waited_for(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three refusals at once were three attempts, and the episode was left out of its step."""
    monkeypatch.setattr(token_servers, "FIRST_PAUSE", 0.01)
    with serving([error(status, "too many")] * 4, [error(status, "too many")] * 4) as (_, pool, _transfer):
        assert complete(pool)[0].output_ids == (7, 8) and all(server.alive for server in pool.servers)
    monkeypatch.setattr(token_servers, "PATIENCE", 0.05)
    with serving([error(status, "too many")] * 99) as (_, pool, _transfer):
        with pytest.raises(UnreachableError, match=f"3 attempts at one answer failed: .* {status}"):
            complete(pool)


def test_a_server_that_is_not_well_is_left_out_until_the_weights_change() -> None:
    with serving([error(500)], [error(500)]) as (servers, pool, transfer):
        servers[0].healthy = servers[1].healthy = False
        with pytest.raises(BackboneError, match="2 servers were lost while they answered one request"):
            complete(pool)
        assert [server.alive for server in pool.servers] == [False, False] and len(pool.lost) == 2
        servers[1].healthy = True
        pool.weights_changed(1)
        assert transfer.sent[-1] == ([pool.servers[1]], 1)
        assert [each.policy_version for each in complete(pool, ASKED, ASKED)] == [1, 1]
        assert len(servers[0].requests) == 1


def test_a_server_that_cannot_take_weights_draws_nothing() -> None:
    with serving([], []) as (servers, pool, transfer):
        transfer.down = pool.servers[:1]
        pool.weights_changed(1)
        complete(pool, *[ASKED] * 4)
        assert [len(server.requests) for server in servers] == [0, 4]


@pytest.mark.parametrize("command", [page(), body(drawn(ids=(7,) * 9)), error(404, "no such model")])
def test_a_server_that_sends_no_answers_draws_nothing_while_another_does(command: Command) -> None:
    """It answers at once, so it is the least busy: it would get all requests, and spoil them."""
    several = [TokenRequest((5, number), ASKED.sampling) for number in range(8)]
    with serving([command] * 20, []) as (servers, pool, _):
        assert all(found.output_ids == (7, 8) for found in complete(pool, *several))
        assert not pool.servers[0].alive and pool.servers[1].alive
        asked = len(servers[0].requests)
        complete(pool, *several)
        assert len(servers[0].requests) == asked


@pytest.mark.parametrize("idle", [True, False])
def test_a_server_that_was_started_anew_is_given_the_weights_again(idle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is well, and has the weights of the beginning: also where nobody asked it anything while it was away."""
    monkeypatch.setattr(token_server, "RESTART_SECONDS", -1.0 if idle else 600.0)
    with serving([body(drawn()), body(drawn()) if idle else break_off]) as ((server,), pool, transfer):
        server.started = 1
        pool.weights_changed(1)
        complete(pool)
        assert len(transfer.sent) == 2
        server.started = 2
        assert complete(pool)[0].policy_version == 1
        assert len(transfer.sent) == 3 and transfer.sent[-1] == ([pool.servers[0]], 1)
        complete(pool)
        assert len(transfer.sent) == 3, "once is enough"


def test_one_that_has_forgotten_its_adapter_is_given_it_again() -> None:
    with serving([error(404, "no such model")]) as (_, pool, transfer):
        assert complete(pool)[0].output_ids == (7, 8) and len(transfer.sent) == 2


def test_a_server_that_missed_a_change_of_weights_is_given_them_when_no_other_is_left() -> None:
    with serving([], [error(500)] * 3) as (servers, pool, transfer):
        servers[0].healthy = False
        pool.weights_changed(1)
        servers[0].healthy, servers[1].healthy = True, False
        assert complete(pool)[0].policy_version == 1
        assert transfer.sent[-1] == ([pool.servers[0]], 1) and len(servers[0].requests) == 1


def test_a_server_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took the request, and says nothing any more: the time limit of an answer is far away."""
    monkeypatch.setattr(token_servers, "WATCH_SECONDS", 0.05)
    with serving([hang], [hang]) as (servers, pool, _):
        servers[0].healthy = servers[1].healthy = False
        with pytest.raises(BackboneError, match="neither a request nor for its health"):
            complete(pool)
        servers[0].healthy = True
        pool.weights_changed(1)
        assert complete(pool)[0].output_ids == (7, 8)


def test_when_none_is_left_all_who_ask_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_servers, "PATIENCE", 0.2)
    with serving([error(500)] * 3) as ((server,), pool, _):
        server.healthy = False
        with pytest.raises(NoServerError, match=r"none of the 1 rollout servers answers .*--resume"):
            complete(pool, ASKED, ASKED, ASKED)
        with pytest.raises(NoServerError):
            pool.weights_changed(1)


def test_a_prompt_that_leaves_no_room_is_no_fault_of_the_server() -> None:
    too_long = error(400, "maximum context length is 64")
    with serving([too_long]) as ((server,), pool, _), pytest.raises(ContextError, match="maximum context length"):
        complete(pool)
    assert len(server.requests) == 1


def test_a_call_that_is_cancelled_leaves_the_servers_as_they_were() -> None:
    def slow(handler: Handler) -> None:
        handler.server.over.wait(5)

    with serving([slow, slow]) as (_, pool, _transfer):

        async def hasty() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await pool.complete([ASKED])

        asyncio.run(hasty())
        assert pool.servers[0].alive


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("<html>", GarbageError, "no completion"),
        ("{}", GarbageError, "no completion"),
        (json.dumps({"choices": [{"text": "a kernel", "finish_reason": "stop"}]}), GarbageError, "without the ids"),
        (json.dumps(drawn(logprobs=None)), GarbageError, "without their log-probs"),
        (json.dumps(drawn(logprobs={"token_logprobs": [None, -1.0]})), GarbageError, "without their log-probs"),
        (json.dumps(drawn(ids=())), GarbageError, "without tokens"),
        (json.dumps(drawn(logprobs={"token_logprobs": [math.nan, -1.0]})), GarbageError, "that are none"),
        (json.dumps(drawn(logprobs={"token_logprobs": [-math.inf, -1.0]})), GarbageError, "that are none"),
        (json.dumps(drawn(logprobs={"token_logprobs": [0.5, -1.0]})), GarbageError, "that are none"),
        (json.dumps(drawn(ids=range(5))), GarbageError, "5 tokens of at most 4"),
        (json.dumps(drawn(ids=(3, 10))), GarbageError, "from 3 to 10"),
        (json.dumps(drawn(ids=(-1, 3))), GarbageError, "from -1 to 3"),
        (json.dumps(drawn(finish="abort")), UnreachableError, "gave the answer up"),
    ],
)
def test_what_is_no_answer_is_told(text: str, kind: type[BackboneError], says: str) -> None:
    found = read_completion(200, text, 0, "KEY", 4, 10)
    assert not isinstance(found, TokenCompletion)
    assert found.kind is kind and says in found.what
