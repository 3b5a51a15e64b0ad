"""What strategies share: a kernel grown, and lanes, which go on side by side and end together: by a spent budget quietly, by any other
error for all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from bottega.core.errors import BudgetError
from bottega.episodes.node import SearchNode
from bottega.episodes.tuning import TEMPLATE
from bottega.episodes.writing import EpisodeSearch


async def grown(
    search: EpisodeSearch, name: str, history: Sequence[SearchNode], scheme: int, instruction: str = ""
) -> SearchNode:
    """One kernel, written and judged."""
    if (
        search.settings.knobs and search.settings.style != "terse"
    ):  # a model that was trained on one form of prompt writes no templates
        instruction = f"{instruction}\n{TEMPLATE}".strip()
    return await search.grow(name, history, scheme, instruction)


async def side_by_side(search: EpisodeSearch, lanes: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Run them all. A lane that meets the budget's end stops; kernels of others that are under way are still judged."""
    errors: list[Exception] = []

    async def guarded(lane: Coroutine[Any, Any, Any]) -> None:
        try:
            await lane
        except BudgetError as error:
            search.ended = search.ended or str(error)
        except Exception as error:
            # The others may finish what they have under way: it is paid for.
            search.ended = search.ended or f"error: {error}"
            errors.append(error)

    await asyncio.gather(*(guarded(lane) for lane in lanes))
    if errors:
        raise errors[0]


def schemes_in_use(search: EpisodeSearch) -> list[int]:
    """Numbers of the schemes that kernels are written with."""
    first = 0 if search.settings.empty_scheme or len(search.schemes) == 1 else 1
    return list(range(first, len(search.schemes)))
