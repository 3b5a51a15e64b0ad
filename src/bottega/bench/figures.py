"""How figures of a benchmark are written, in terminal, Markdown and HTML alike: a point, and the ends of its interval in brackets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bottega.bench.bootstrap import Estimate
from bottega.bench.metrics import BenchSummary, TaskGroup
from bottega.core.verdict import NO_UPPER_END

NONE = "–"
GROUP_COLUMNS = ("correct", "fast_1", "fast_1 surely", "geometric mean", "median", "kept")


def share(estimate: Estimate) -> str:
    """37% (21 to 53)"""
    if estimate.point is None:
        return NONE
    return f"{estimate.point:.0%}{_ends(estimate, lambda value: f'{100 * value:.0f}')}"


def speed(estimate: Estimate, over: bool = False) -> str:
    """1.12× (0.98 to 1.31)"""
    if estimate.point is None:
        return NONE
    told = f"{_times(estimate.point)}×{_ends(estimate, _times)}"
    return f"{told}, {tasks(estimate.over)}" if over else told


def group_cells(group: TaskGroup) -> tuple[str, ...]:
    """The figures of some tasks in one row, under `GROUP_COLUMNS`."""
    shares, speeds = (group.correct, group.fast[1.0], group.sure[1.0]), group.speeds
    return *map(share, shares), *map(speed, (speeds.geometric_mean, speeds.median, speeds.kept))


def kernels(found: BenchSummary) -> str:
    """1 × 1 kernels, and up to 2 drafts: samples × turns of a task, and what the compiler may add to each sample."""
    own = f"{found.samples} × {found.turns - found.drafts} kernels" if found.turns > found.drafts else ""
    drafts = f"up to {found.drafts} draft{'' if found.drafts == 1 else 's'} of the compiler" if found.drafts else ""
    return ", and ".join(filter(None, (own, drafts)))


def authors(found: BenchSummary) -> list[tuple[str, str]]:
    """94 of 100 faster: 81 by the model, 13 by the compiler. Nothing where a run has one author."""
    if not found.drafts:
        return []
    wrote = {name: count for name, count in found.authors.items() if name != "model" or found.turns > found.drafts}
    told = ", ".join(f"{count} by the {name}" for name, count in wrote.items())
    return [("kept", f"{sum(wrote.values())} of {tasks(found.every.tasks)} surely faster: {told}")]


def tasks(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"


def points(estimate: Estimate) -> str:
    """A difference of shares: +5 points (−3 to +14)"""
    if estimate.point is None:
        return NONE
    return f"{_signed(estimate.point)} points{_ends(estimate, _signed)}"


def span(speedup: tuple[float, float, float] | None, right: bool) -> str:
    """One kernel's speedup with the judge's own interval."""
    if speedup is None:
        return "right, not timed" if right else "not right"
    point, low, high = speedup
    return f"{_times(point)}× ({_times(low)}{f' to {_times(high)}' if high < NO_UPPER_END else ', no upper end'})"


def sure_sign(estimate: Estimate, neutral: float) -> bool:
    """Whether the whole interval lies on one side."""
    return estimate.low is not None and estimate.high is not None and (estimate.low > neutral or estimate.high < neutral)


def counted(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts) or NONE


def _ends(estimate: Estimate, told: Callable[[float], str]) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({told(estimate.low)} to {told(estimate.high)})"


def _times(value: float) -> str:
    return f"{value:.3g}" if value < 0.995 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _signed(value: float) -> str:
    return "0" if abs(value) < 0.005 else f"{100 * value:+.0f}".replace("-", "−")
