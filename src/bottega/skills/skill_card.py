"""The two pages beside an exported SKILL.md, in the form that other skill collections use: `skill-card.md` and `BENCHMARK.md`.

Their benchmark says how attempts with a skill fared against attempts without it. Ours says the same from the gate's paired trials, with an
interval, and refused trials are listed like the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bottega.core.foreign_text import markdown_text
from bottega.core.skill import Skill
from bottega.core.trial import Trial

CARD, BENCHMARK = "skill-card.md", "BENCHMARK.md"


def skill_card(skill: Skill, trials: Sequence[Trial]) -> str:
    """What it is for, what it asks of its user, what may go wrong, and what was measured."""
    state = {"admitted": "proved by paired trials", "proposed": "not proved yet", "retired": "retired: it did not help"}
    parts = [
        f"## Description\n\n{markdown_text(skill.intent)}",
        f"## Use case\n\nWriting {', '.join(skill.languages)} kernels for {', '.join(skill.devices)}. {markdown_text(skill.anchor)}",
        "## Requirements\n\nNo key and no credential. The kernel's language and its compiler.",
        "## Known risks\n\n" + "\n".join(f"- {markdown_text(failure)}" for failure in skill.failures),
        f"## State\n\n{skill.state.value}: {state.get(skill.state.value, '')}. Judge every kernel that was written with it.",
        f"## Evaluation results\n\n{_table(trials)}" if trials else "## Evaluation results\n\nNone yet.",
        f"## Version\n\n{skill.version} (from {markdown_text(skill.provenance.origin)})",
    ]
    return "\n\n".join(parts) + "\n"


def benchmark_page(skill: Skill, trials: Sequence[Trial]) -> str:
    """Every trial, with its pairs."""
    name = skill.name.replace("_", "-")
    admitted = any(trial.decision == "admitted" for trial in trials)
    parts = [
        f"# Skill benchmark: {name}",
        f"Overall verdict: {'it helps' if admitted else 'not proved'}.",
        "An attempt is one kernel by the same writer with the same seed, with the skill in its prompt and without. It is worth its measured "
        "speedup, and 1 where it is wrong, slower or fails, since the module then stays as it was. The uplift is the geometric mean over pairs; its "
        "interval holds at every look of the gate.",
        _table(trials),
    ]
    for trial in trials:
        pairs = ", ".join(f"{without:.2f} → {with_:.2f}" for without, with_ in zip(trial.without_skill, trial.with_skill))
        parts.append(
            f"## {markdown_text(trial.task_name)}{' (a sibling task)' if trial.sibling else ''}\n\n"
            f"{markdown_text(trial.device)}, judge {markdown_text(trial.judge_version)}, against {markdown_text(trial.baseline)}. "
            f"{markdown_text(trial.decision)}: {markdown_text(trial.reason)}\n\nPairs: {pairs}."
        )
    return "\n\n".join(parts) + "\n"


def _table(trials: Sequence[Trial]) -> str:
    lines = ["| Task | Without → with | Uplift | Interval | Pairs | Decision |", "|---|---:|---:|---:|---:|---|"]
    for trial in trials:
        change = f"{_mean(trial.without_skill):.2f}x → {_mean(trial.with_skill):.2f}x"
        gain = f"{trial.gain.point:.2f}x | {trial.gain.low:.2f} to {trial.gain.high:.2f}"
        lines.append(
            f"| {markdown_text(trial.task_name)} | {change} | {gain} | {len(trial.with_skill)} | {markdown_text(trial.decision)} |"
        )
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> float:
    """Geometric, as gains are factors."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0
