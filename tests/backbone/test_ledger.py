from __future__ import annotations

import asyncio
import random
import threading

import pytest
from misbehaving import answer, error, misbehaving, slowly, together

from bottega.backbone.chat import ChatCompletion, Message, Sampling, Usage
from bottega.backbone.ledger import Ledger, Prices, Reservation, likely_tokens, most_tokens
from bottega.backbone.server import Endpoint, ServerBackbone
from bottega.core.errors import BudgetError, UsageError


def test_prices() -> None:
    assert Prices(2.0, 8.0).cost(500_000, 250_000) == 3.0
    assert Prices().cost(10**9, 10**9) == 0
    for price in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError):
            Prices(price, 1.0)


def test_a_likely_count_is_below_the_bound() -> None:
    for text in ("", "a", "for (int i = 0; i < n; ++i) y[i] = x[i];", "0.123456789 " * 9, "日本語 🚀", "\ud800"):
        assert likely_tokens(text) <= most_tokens([Message("user", text)])
    assert likely_tokens("") == 0 and likely_tokens("ab") == 1
    assert likely_tokens("for (int i = 0; i < 10; ++i)\n    sum += values[i];") == 25  # a count by hand


def held(ledger: Ledger, prompt_tokens: int, output_tokens: int) -> Reservation:
    return asyncio.run(ledger.hold(prompt_tokens, output_tokens))


def test_hold_settle_and_release() -> None:
    ledger = Ledger(Prices(1.0, 2.0), token_cap=1000)
    first, second = held(ledger, 100, 200), held(ledger, 300, 400)
    assert ledger.held == Usage(400, 600, pytest.approx(1600e-6)) and ledger.spent == Usage()
    assert ledger.settle(first, 90, 50) == Usage(90, 50, pytest.approx(190e-6))
    for reservation in (second, second, first):
        ledger.release(reservation)
    assert ledger.held == Usage()
    assert ledger.spent == Usage(90, 50, pytest.approx(190e-6)) and ledger.answers == 1


def test_a_cap_on_money() -> None:
    ledger = Ledger(Prices(1.0, 10.0), token_cap=10**9, money_cap=0.01)
    ledger.settle(held(ledger, 0, 900), 0, 900, estimated=True)
    ledger.settle(held(ledger, 0, 100), 0, 100)  # to the last cent
    with pytest.raises(BudgetError, match=r"cap of 0.01 in money .* 1000 tokens used for 0.0100 in 2 answers \(some of them"):
        held(ledger, 1, 0)


def test_caps_that_make_no_sense() -> None:
    for caps in ({"token_cap": -1}, {"money_cap": float("nan")}, {"money_cap": 1.0}):
        with pytest.raises(UsageError):
            Ledger(**caps)
    with pytest.raises(BudgetError):
        held(Ledger(token_cap=0), 1, 1)


def test_what_an_earlier_part_of_the_run_took_counts() -> None:
    ledger = Ledger(token_cap=100, spent=Usage(50, 40), answers=3)
    with pytest.raises(BudgetError, match="90 tokens used"):
        held(ledger, 5, 6)


def test_a_request_waits_for_those_under_way_and_no_longer() -> None:
    async def scene() -> None:
        ledger = Ledger(token_cap=100)
        first = await ledger.hold(0, 80)
        second = asyncio.create_task(ledger.hold(0, 60))
        third = asyncio.create_task(ledger.hold(0, 60))
        await asyncio.sleep(0.01)
        assert not second.done() and not third.done()
        ledger.settle(first, 0, 30)
        done, waiting = await asyncio.wait({second, third}, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == len(waiting) == 1
        ledger.settle(done.pop().result(), 0, 60)
        with pytest.raises(BudgetError, match="90 tokens used"):
            await waiting.pop()
        with pytest.raises(BudgetError):
            await ledger.hold(0, 101)

    asyncio.run(scene())


def test_a_cap_holds_from_many_threads() -> None:
    ledger = Ledger(token_cap=10_000)

    def spend(seed: int) -> None:
        chance = random.Random(seed)

        async def requests() -> None:
            try:
                while True:
                    reserved = await ledger.hold(50, 100)
                    await asyncio.sleep(chance.random() / 1000)
                    if chance.random() < 0.2:
                        ledger.release(reserved)
                    else:
                        ledger.settle(reserved, chance.randrange(51), chance.randrange(101))
            except BudgetError:
                pass

        asyncio.run(requests())

    threads = [threading.Thread(target=spend, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert 9_850 < ledger.spent.tokens <= 10_000 and ledger.held == Usage()


def twenty(url: str, ledger: Ledger, messages: list[Message], sampling: Sampling) -> list[ChatCompletion | BaseException]:
    """What comes of twenty requests at once."""

    async def scene() -> list[ChatCompletion | BaseException]:
        there = ServerBackbone(Endpoint(url, "tiny", key_variable=""), ledger=ledger, concurrency=20)
        try:
            return await asyncio.gather(*(there.chat(messages, sampling) for _ in range(20)), return_exceptions=True)
        finally:
            await there.close()

    return asyncio.run(scene())


def test_a_cap_is_never_overshot_by_twenty_requests_at_once() -> None:
    messages, sampling = [Message("user", "Hello")], Sampling(max_tokens=50)
    bound = most_tokens(messages) + 50
    cap = 7 * bound + 10
    ledger = Ledger(token_cap=cap)

    worst = together(7, answer(prompt=bound - 50, output=50))
    with misbehaving(*[worst] * 20) as server:
        got = twenty(server.url, ledger, messages, sampling)
        assert len(server.requests) == server.most_in_flight == 7
    refused = [each for each in got if isinstance(each, BudgetError)]
    assert len(refused) == 13 and sum(isinstance(each, ChatCompletion) for each in got) == 7
    assert f"cap of {cap} tokens" in str(refused[0])
    assert ledger.spent.tokens == 7 * bound <= cap and ledger.held == Usage()


def test_a_cap_is_used_up_although_requests_take_less_than_they_might() -> None:
    messages, sampling = [Message("user", "Hello")], Sampling(max_tokens=500)
    ledger = Ledger(token_cap=2000)

    with misbehaving(*[answer(prompt=10, output=40)] * 20) as server:
        got = twenty(server.url, ledger, messages, sampling)
    assert all(isinstance(each, ChatCompletion) for each in got)
    assert ledger.spent.tokens == 1000


def test_a_failed_request_gives_its_reservation_back() -> None:
    ledger = Ledger(token_cap=1000)

    async def scene(url: str) -> str:
        there = ServerBackbone(Endpoint(url, "tiny", key_variable=""), ledger=ledger)
        failed, fine = await asyncio.gather(
            *(there.chat([Message("user", "Hello")], Sampling(max_tokens=700)) for _ in range(2)), return_exceptions=True
        )
        await there.close()
        assert not isinstance(failed, ChatCompletion) and isinstance(fine, ChatCompletion)
        return fine.text

    with misbehaving(slowly(error(400)), answer()) as server:
        assert asyncio.run(scene(server.url)) == "fine"
    assert ledger.answers == 1 and ledger.spent.tokens == 15
