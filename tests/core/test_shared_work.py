"""Work that several ask for at once is done once; what failed is tried again by whoever asks next."""

from __future__ import annotations

import asyncio

import pytest

from bottega.core.shared_work import SharedWork


def test_whoever_asks_meanwhile_gets_the_same_and_whoever_asks_later_has_it_done_again() -> None:
    made: list[str] = []

    async def make() -> int:
        made.append("begun")
        await asyncio.sleep(0.01)
        return len(made)

    async def scene() -> None:
        work = SharedWork()
        assert await asyncio.gather(work.once("a", make), work.once("a", make), work.once("b", make)) == [2, 2, 2]
        assert await work.once("a", make) == 3

    asyncio.run(scene())


def test_an_error_is_everybodys_who_waits() -> None:
    async def fail() -> int:
        await asyncio.sleep(0.01)
        raise ValueError("no")

    async def scene() -> None:
        work = SharedWork()
        found = await asyncio.gather(work.once("a", fail), work.once("a", fail), return_exceptions=True)
        assert [str(error) for error in found] == ["no", "no"]
        with pytest.raises(ValueError, match="no"):
            await work.once("a", fail)

    asyncio.run(scene())


def test_one_who_gives_up_waiting_ends_nothing() -> None:
    async def make() -> int:
        await asyncio.sleep(0.02)
        return 7

    async def scene() -> None:
        work = SharedWork()
        first = asyncio.create_task(work.once("a", make))
        await asyncio.sleep(0)
        second = asyncio.create_task(work.once("a", make))
        await asyncio.sleep(0)
        second.cancel()
        assert await first == 7

    asyncio.run(scene())
