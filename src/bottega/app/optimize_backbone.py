"""The speaker that a commission names, with its caps: what an earlier sitting spent counts against them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bottega.backbone.choose import open_backbone
from bottega.backbone.client import Speaker
from bottega.core.errors import UsageError
from bottega.core.event import Event
from bottega.episodes.attempts import totals_of
from bottega.episodes.request import Commission

SMALLEST_CONTEXT = 512


def speaker_for(
    commission: Commission, prices: tuple[float, float] | None, context: int | None, events: Sequence[Event]
) -> Speaker:
    if context is not None and context < SMALLEST_CONTEXT:
        raise UsageError(f"a context of {context} tokens holds no task and no kernel; give at least {SMALLEST_CONTEXT}")
    if not commission.backbone.startswith("server:"):
        speaker = open_backbone(commission.backbone)
        speaker.context = min(speaker.context, context or speaker.context)
        return speaker
    from bottega.backbone.chat import Usage
    from bottega.backbone.ledger import Ledger, Spent
    from bottega.backbone.pricing import Prices

    spent = totals_of(events)
    ledger = Ledger(
        Prices(*(prices or (0.0, 0.0))),
        token_cap=commission.caps.tokens,
        money_cap=commission.caps.money,
        spent=Spent(Usage(spent.prompt_tokens, spent.output_tokens, spent.cost), spent.calls, spent.estimated),
    )
    options: dict[str, Any] = {} if context is None else {"context": context}
    return open_backbone(commission.backbone, ledger=ledger, **options)
