"""What every command that has kernels written lets its user say about the writing, and the model client that follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from bottega.backbone.chat import Usage
from bottega.backbone.choose import open_backbone
from bottega.backbone.client import Client
from bottega.backbone.ledger import Ledger, Prices
from bottega.core.errors import UsageError
from bottega.core.setting_kinds import Count, Mode, Positive, Style, Workers
from bottega.core.settings import CommandSettings
from bottega.languages import default_language, kernel_languages

LANGUAGE_NAMES = ", ".join(language.name for language in kernel_languages())
LANGUAGE_HELP = (
    f"{LANGUAGE_NAMES}, or module:Name; {default_language('cpu').name} on a CPU, {default_language('cuda').name} on a GPU."
)
SMALLEST_CONTEXT = 512
"""Fewer tokens hold no task and no kernel."""


class WritingSettings(CommandSettings):
    language: Annotated[str | None, Field(description=LANGUAGE_HELP)] = None
    resamples: Count | None = None
    """Sample an answer again, so often at most, where it is seen to be broken before it is judged; if left out 3 if terse, else 0."""
    temperature: float | None = None
    """0 takes the likeliest answer; if left out 1, or what suits the embedded model."""
    max_tokens: Positive | None = None
    """Tokens of one answer; if left out 3072 for the embedded model, 8192 from a server, else 2048."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer."""
    context: Annotated[int, Field(ge=SMALLEST_CONTEXT)] | None = None
    """Tokens that the model takes, prompt and answer together."""
    style: Style | None = None
    """Of prompts: terse for models trained on it, compact for small ones, full for large ones."""
    prompts: Path | None = None
    """A folder of prompt files that override the shipped ones."""
    proved_only: bool = False
    """Offer admitted skills only, not proposed ones; a new library has only those."""
    tokens: int | None = None
    """At most this many tokens, prompts and answers, over all sessions."""
    money: float | None = None
    """At most this much, in the currency of the prices, over all sessions."""
    price_prompt: float | None = None
    """Price of a million prompt tokens of the server."""
    price_output: float | None = None
    """Price of a million output tokens."""
    workers: Workers = "auto"
    """Kernels that are built and tried side by side on each device; auto is what the cores carry."""
    precision: str = "fp32"
    """fp32 (strict), or what kernel and baseline may use: tf32, bf16, fp16."""
    mode: Mode = "as-built"
    """Judge modules in train or eval mode, or as they were built."""
    quiet: bool = False
    """No progress on standard error."""

    def prices(self, backbone: str) -> Prices:
        """Raises `UsageError` where prices are missing that a cap needs, or are given for what costs nothing."""
        if self.price_prompt is None and self.price_output is None:
            if self.money is not None:
                raise UsageError("money needs the server's prices: give price_prompt and price_output")
        elif not backbone.startswith("server:"):
            raise UsageError(f"prices are for servers; {backbone} costs nothing")
        return Prices(self.price_prompt or 0.0, self.price_output or 0.0)

    def client(self, backbone: str, spent: Usage, answers: int, **of_server: int) -> Client:
        """`spent`: by earlier sessions. Caps hold for a server alone: a model of our own costs nothing, and its tokens are counted by the run."""
        if not backbone.startswith("server:"):
            client = open_backbone(backbone)
            client.context = min(client.context, self.context or client.context)
            return client
        ledger = Ledger(self.prices(backbone), token_cap=self.tokens, money_cap=self.money, spent=spent, answers=answers)
        return open_backbone(
            backbone, ledger=ledger, **({} if self.context is None else {"context": self.context}), **of_server
        )
