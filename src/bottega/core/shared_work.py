"""Work that is done once, however many ask for it: whoever asks while it is under way waits for it, and gets the same result or the same error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

Result = TypeVar("Result")


class SharedWork:
    """Of one event loop. Nothing is kept once it is done."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Any]] = {}

    async def once(self, key: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        if key in self._under_way:
            shared: Result = await asyncio.shield(self._under_way[key])
            return shared
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._under_way[key] = future
        try:
            result = await make()
            future.set_result(result)
            return result
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # whoever waits gets it; nobody waiting is no fault
            raise
        finally:
            del self._under_way[key]
