"""The model client that a run asks for, within what the run may spend: what earlier sessions spent counts against its caps."""

from __future__ import annotations

from typing import Any

from bottega.backbone.choose import open_backbone
from bottega.backbone.client import Client
from bottega.backbone.ledger import Ledger, Spent
from bottega.backbone.pricing import Prices
from bottega.core.errors import UsageError

SMALLEST_CONTEXT = 512


def open_budgeted(
    spec: str,
    *,
    prices: Prices | None,
    context: int | None,
    tokens: int | None,
    money: float | None,
    spent: Spent,
    **of_server: Any,
) -> Client:
    """Caps hold for a server alone: a model of our own costs nothing, and its tokens are counted by the run."""
    check_context(context)
    if not spec.startswith("server:"):
        client = open_backbone(spec)
        client.context = min(client.context, context or client.context)
        return client
    ledger = Ledger(prices or Prices(0.0, 0.0), token_cap=tokens, money_cap=money, spent=spent)
    return open_backbone(spec, ledger=ledger, **({} if context is None else {"context": context}), **of_server)


def check_context(context: int | None) -> None:
    if context is not None and context < SMALLEST_CONTEXT:
        raise UsageError(f"a context of {context} tokens holds no task and no kernel; give at least {SMALLEST_CONTEXT}")


def chosen_prices(spec: str, prompt: float | None, output: float | None, money: float | None) -> Prices | None:
    """Raises where prices are missing that a cap needs, or are given for what costs nothing."""
    if prompt is None and output is None:
        if money is not None:
            raise UsageError("money needs the server's prices: give price_prompt and price_output")
        return None
    if not spec.startswith("server:"):
        raise UsageError(f"prices are for servers; {spec} costs nothing")
    return Prices(prompt or 0.0, output or 0.0)
