"""How a backbone is asked where the user does not say: as its model was trained, else by whether it is behind a server.

A small model that was trained on one right answer to each question writes best what it finds likeliest, so one answer is drawn without
chance, and several with little; a large one is asked as its makers advise.
"""

from __future__ import annotations

from typing import cast

from bottega.agents.prompts import Style
from bottega.backbone.loading import noted_style, trained_style

NO_MODEL = "none"
"""In place of a backbone: the compiler's drafts alone."""
SEVERAL = 0.8
"""The temperature of a trained model's answers where several are drawn."""
LONG_ANSWER = 3072
"""Tokens: what the longest kernels have that our own models were trained on."""
DRAFTS = 2
"""A draft costs no tokens, only its judging. Two, because a build ends in two branches, and only the judge can say which is faster."""
DRAFTS_ALONE = 3
"""Where no model is asked."""
RESAMPLES = 3
"""A small model's slips are by chance: another answer is often without, and costs less than judging one that cannot be right."""
KNOBS = 6
"""Settings of one kernel: two or three of each of its knobs, and few enough that measuring them costs less than a verdict or two."""
DRAFTING = 60.0
"""Seconds that tracing a module may take."""


def own_style(backbone: str) -> str | None:
    """Of the prompts that a model was trained on, by its card or by its folder."""
    return trained_style(backbone) or noted_style(backbone)


def prompt_style(backbone: str, chosen: str | None = None) -> Style:
    return cast(Style, chosen or own_style(backbone) or ("full" if backbone.startswith("server:") else "compact"))


def temperature_for(backbone: str, answers: int, chosen: float | None = None) -> float:
    """`answers`: how many are asked for each task."""
    if chosen is not None:
        return chosen
    if trained_style(backbone) is None:
        return 1.0
    return SEVERAL if answers > 1 else 0.0


def strategy_for(backbone: str, chosen: str | None = None) -> str:
    """A trained small model was shown first answers and hardly a repair: several of its first answers beat a line of turns (docs/results.md)."""
    return chosen or ("parallel" if trained_style(backbone) else "serial")


def knob_count(strategy: str, device: str, measured: bool, chosen: int | None = None) -> int:
    """An evolution compares structures, and so has the knobs of each tuned. On a GPU the best kernel of every search is, where it can be `measured`
    without a verdict: drafts in Triton have knobs that decide speed, those in C++ have none."""
    if chosen is not None:
        return chosen
    return KNOBS if strategy == "evolve" or (measured and device.startswith("cuda")) else 0


def likeliest_first(backbone: str, chosen: float | None = None) -> bool:
    """Of several answers of a trained model the first is the one it finds likeliest, unless a temperature is asked for."""
    return chosen is None and trained_style(backbone) is not None


def answer_tokens(backbone: str, chosen: int | None = None) -> int:
    if chosen is not None:
        return chosen
    return 8192 if backbone.startswith("server:") else LONG_ANSWER if trained_style(backbone) else 2048


def draft_count(backbone: str, kernels: int | None, chosen: int | None = None) -> int:
    """A script is asked for what it says. Of few kernels, at least half are left to the model."""
    if chosen is not None:
        return chosen
    if backbone.startswith("scripted:"):
        return 0
    if backbone == NO_MODEL:
        return kernels if kernels is not None else DRAFTS_ALONE
    return DRAFTS if kernels is None else min(DRAFTS, kernels // 2)


def resample_count(style: Style, chosen: int | None = None) -> int:
    """Who is asked in the terse style is a small model that was trained on it; others slip seldom, and their answers are dear."""
    if chosen is not None:
        return chosen
    return RESAMPLES if style == "terse" else 0


def drafting_seconds(seconds: float | None) -> float:
    """A module that cannot be traced eats at most a third of the run's time."""
    return DRAFTING if seconds is None else min(DRAFTING, seconds / 3)
