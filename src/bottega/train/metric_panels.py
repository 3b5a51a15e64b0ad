"""Which figures of training are drawn together, and what a reader should look for in them. The report and the dashboard draw the same panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
