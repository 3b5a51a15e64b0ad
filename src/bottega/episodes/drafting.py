"""Drafts: kernels that are there before the model writes. They are judged by the same judge under the same rules, and may win.

Who draws them is handed in. What was drawn stands in the log: a run that is resumed keeps the drafts that it began with.
"""

from __future__ import annotations

import time

from bottega.core.draft import Drafts, DraftSource
from bottega.core.errors import BudgetError
from bottega.core.event import Drafted
from bottega.episodes.writing import EpisodeSearch


async def write_drafts(search: EpisodeSearch) -> None:
    """Have drafts drawn and judge them, one after the other: each may be all that is needed."""
    key = f"{search.episode}/drafts"
    drafted = search.context.journal.done(key, Drafted)
    if drafted is None:
        draft_source = search.context.draft_source
        if draft_source is None or not search.settings.drafts or search.finished():
            return
        drafted = await search.context.journal.once(key, Drafted, lambda: _drafted(search, draft_source, key))
    for number, draft in enumerate(drafted.drafts, 1):
        if search.finished():
            return
        try:
            await search.adopt(f"draft{number}", draft, drafted.author)
        except BudgetError as error:
            search.ended = search.ended or str(error)
            return


async def _drafted(search: EpisodeSearch, draft_source: DraftSource, key: str) -> Drafted:
    """Whatever happens to the draft_source is told in a line, and the model writes all the same."""
    settings, begun = search.settings, time.monotonic()
    try:
        drawn = await draft_source.drafts(search.task, settings.language, settings.drafts)
    except Exception as error:  # it runs the module's code, which raises what it likes
        drawn = Drafts("", refused=f"{type(error).__name__}: {error}")
    refused = " ".join(drawn.refused.split())
    drafts = drawn.drafts[: settings.drafts]
    return Drafted(key, search.episode, drawn.author, drafts, refused, round(time.monotonic() - begun, 3))
