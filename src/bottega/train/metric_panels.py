"""Which figures of training are drawn together, and what a reader should look for in them. The report and the dashboard show the same plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bottega.core.plot import Plot, PlotSeries

Panel = tuple[str, str, tuple[str, ...], str]
"""Title, caption, names of figures, and how they are drawn."""

RL_PANELS: tuple[Panel, ...] = (
    ("Reward", "Mean over all kernels, and over the best kernel of each rollout.", ("reward", "reward_best"), "lines"),
    ("Right and fast", "Share of kernels that are right, and of rollouts whose best is at least p times as fast.",
     ("correct", "fast_1", "fast_1.2", "fast_1.5", "fast_2"), "lines"),
    ("Reward by role", "Writing: a kernel. Selecting: what was written with the selection. Summarising: the gain that the gate measured.",
     ("write/reward", "select/reward", "summarise/reward"), "lines"),
    ("Reward by turn", "Later turns have seen feedback: they should lie above the first.", ("turn*/reward",), "lines"),
    ("Right by turn", "Junk begins in the last turn.", ("turn*/correct",), "lines"),
    ("Speedup of right kernels", "Against the baseline of the reward.", ("speedup", "turn*/speedup"), "lines"),
    ("Coverage", "Share of the work that the candidate's own kernels do. Falling while the reward rises: lazy kernels.",
     ("coverage",), "lines"),
    ("Unusable answers", "Without a kernel, cut by the limit, dishonest, or not judged. Rising: the run is about to collapse.",
     ("junk", "cut", "dishonest", "unjudged", "skills/selector_faults"), "lines"),
    ("Spread of advantages", "Standard deviation by role. At 0 there is nothing to learn from.",
     ("write/advantage_deviation", "select/advantage_deviation", "summarise/advantage_deviation"), "lines"),
    ("Entropy", "Of the sampled tokens. Running away or vanishing: see the alarms.", ("entropy",), "lines"),
    ("Mismatch of decoder and trainer", "Mean size of the log-ratio, and its divergence.", ("mismatch", "mismatch_kl"), "lines"),
    ("Left out of the update", "By coverage, by mismatch, and clipped.", ("dropped/coverage", "dropped/mismatch", "clipped_share"), "lines"),
    ("Skills of a step", "Cards proposed, tried by the gate, passed, and used by selections.",
     ("skills/proposed", "skills/proved", "skills/passed", "skills/known", "skills/used"), "lines"),
    ("Critic", "Its error, and the share of the returns' spread that it explains.", ("critic/loss", "critic/explained"), "lines"),
    ("Loss and gradient", "Before the bound on the gradient.", ("loss", "gradient"), "lines"),
    ("Tokens a second", "Sampled while the generator was busy, and learned while the trainer was.",
     ("tokens_per_second", "training_tokens_per_second"), "lines"),
    ("Who was busy", "Share of a step.", ("busy/generator", "busy/judge", "busy/trainer"), "lines"),
    ("Seconds of a step", "By stage.", ("seconds/rollout", "seconds/gate", "seconds/training"), "stacked"),
    ("Memory, GiB", "The peak so far.", ("memory_gib",), "exact"),
)  # fmt: skip
VALIDATION_PANELS: tuple[Panel, ...] = (
    ("Validation", "Tasks that are never trained on, answered without chance: right, and at least as fast as the baseline; "
     "with_skills: with what the selector picked.", ("correct", "fast_1", "with_skills/correct", "with_skills/fast_1"), "exact"),
    ("Validation: speedup of right kernels", "Against the baseline of the reward.", ("speedup", "with_skills/speedup"), "exact"),
)  # fmt: skip
"""Of RL, drawn from what is measured as `eval`."""
SFT_PANELS: tuple[Panel, ...] = (
    ("Loss", "Of a learned token, in training.", ("nll",), "lines"),
    ("Gradient", "Before the bound.", ("gradient",), "lines"),
    ("Entropy", "Of the answers' tokens.", ("entropy",), "lines"),
    ("Learning rate", "As scheduled.", ("rate",), "exact"),
    ("Tokens a second", "Without padding.", ("tokens_per_second",), "lines"),
)
LIBRARY_PANEL: Panel = (
    "The library",
    "At each checkpoint: its admitted cards (`cards`), and all (`library`).",
    ("cards", "library"),
    "exact",
)
HELD_OUT_PANEL: Panel = ("Held-out loss", "In all and by role.", ("*nll",), "exact")

Rows = Sequence[tuple[int, Mapping[str, float]]]
"""Steps with their figures."""


@dataclass(frozen=True)
class Measurements:
    """What a run measured, by where."""

    train: Rows
    held_out: Rows = ()
    checkpoints: Rows = ()


def training_plots(kind: str, runs: Mapping[str, Measurements]) -> list[Plot]:
    """Those in which anything was measured. Of several runs each line carries the run's name."""
    panels = [(panel, "train") for panel in (RL_PANELS if kind == "rl" else SFT_PANELS)]
    if kind == "rl":
        panels[1:1] = [(panel, "held_out") for panel in VALIDATION_PANELS]
        panels.append((LIBRARY_PANEL, "checkpoints"))
    else:
        panels.insert(1, (HELD_OUT_PANEL, "held_out"))
    found = []
    for (title, caption, names, how), part in panels:
        series = [
            PlotSeries(f"{run} {each.name}" if len(runs) > 1 else each.name, each.points, each.kind)
            for run, measured in runs.items()
            for each in _series(getattr(measured, part), names, "area" if how == "stacked" and len(runs) == 1 else "line")
        ]
        found.append(Plot(title, series, x="step", caption=caption, smooth=how == "lines"))
    return [plot for plot in found if not plot.empty]


def _series(rows: Rows, names: Sequence[str], kind: str) -> list[PlotSeries]:
    wanted = matching(names, {name for _, values in rows for name in values})
    return [PlotSeries(label, points_of(rows, name), kind) for label, name in zip(labels(wanted), wanted)]


def points_of(rows: Rows, name: str) -> list[tuple[float, float]]:
    return [(float(step), values[name]) for step, values in rows if name in values]


def labels(names: Sequence[str]) -> list[str]:
    """Names in a legend: without a first or a last part that all of them share, which the title tells."""
    parts = [name.partition("/") for name in names]
    if len(names) < 2 or not all(rest for _, _, rest in parts):
        return list(names)
    if len({first for first, _, _ in parts}) == 1:
        return [rest for _, _, rest in parts]
    return [first for first, _, _ in parts] if len({rest for _, _, rest in parts}) == 1 else list(names)


def matching(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Of the known figures those that are named; a name with a star stands for all that fit it."""
    order = sorted(known)
    found: list[str] = []
    for name in names:
        before, star, after = name.partition("*")
        found += (
            [each for each in order if each.startswith(before) and each.endswith(after)] if star else [name] * (name in order)
        )
    return list(dict.fromkeys(found))
