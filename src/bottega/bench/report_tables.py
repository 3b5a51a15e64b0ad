"""The longer tables of a benchmark's report: by turns and samples, by family, by card, and task by task."""

from __future__ import annotations

from collections.abc import Sequence

from bottega.bench.attempt import BenchRun
from bottega.bench.breakdowns import Amount
from bottega.bench.figures import NONE, share, span, speed
from bottega.bench.metrics import BenchSummary, kept_author
from bottega.bench.result_arrays import ENDINGS, ResultArrays, drafts_asked, task_ending
from bottega.bench.scaling import GridCell, equal_budgets
from bottega.episodes.attempts import clock
from bottega.episodes.delivery.page import ReportTable

CELL = ("correct", "fast_1", "fast_1 surely", "kept", "mean, wrong as 0")


def more_kernels(found: BenchSummary) -> list[ReportTable]:
    """What turns and samples bring; where a run has more than one of both, at equal budgets."""
    every, tables, own = found.every, [], found.turns - found.drafts
    if found.turns > 1:
        rows = [(f"turn {place}", *_cell(cell)) for place, cell in enumerate(every.by_turn[:own], 1)]
        rows += [(f"best by turn {cell.turns}", *_cell(cell)) for cell in every.best_by_turn[:own]]
        rows += [(f"best with draft {cell.turns - own}", *_cell(cell)) for cell in every.best_by_turn[own:]]
        caption = "Of one sample: each turn alone, then the best so far" + (
            ", then with the compiler's drafts" * bool(found.drafts)
        )
        tables.append(ReportTable("By turn", ("", *CELL), rows, f"{caption}."))
    if found.samples > 1:
        rows = [(f"best of {cell.samples}", *_cell(cell)) for cell in _spread(every.best_of_n)]
        tables.append(
            ReportTable("By samples", ("", *CELL), rows, "With all turns; expected over every choice among the run's samples.")
        )
    same = equal_budgets(every.grid)
    if (
        found.turns > 1 and found.samples > 1 and same and not found.drafts
    ):  # drafts are judged where they are needed: no equal budgets
        rows = [
            (str(kernels), f"{cell.samples} × {cell.turns}", *_cell(cell))
            for kernels, cells in same.items()
            if kernels & (kernels - 1) == 0 or kernels == max(same)
            for cell in cells
        ]
        caption = (
            "As many kernels, spent on parallel samples or on serial turns. Speedup with wrong as 0 is what Kevin's table has."
        )
        tables.append(ReportTable("Samples × turns at equal budgets", ("kernels", "samples × turns", *CELL), rows, caption))
    return tables


def passes(found: BenchSummary) -> list[ReportTable]:
    every = found.every
    if found.samples < 2:
        return []
    rows = [
        (str(k), share(every.pass_correct[k]), share(every.pass_fast[k]), share(every.pass_sure[k])) for k in every.pass_correct
    ]
    caption = f"Out of {found.samples} samples, without bias; a sample passes if any of its turns does. Speed against {found.baseline}."
    return [ReportTable("pass@k", ("k", "correct", "fast_1", "fast_1 surely"), rows, caption)]


def in_families(found: BenchSummary) -> list[ReportTable]:
    rows = [
        (each.name, str(each.tasks), share(each.correct), share(each.fast), share(each.sure), speed(each.speedup))
        for each in found.families
    ]
    return (
        [ReportTable("By family", ("", "tasks", "correct", "fast_1", "fast_1 surely", "geometric mean"), rows)] if rows else []
    )


def family_endings(found: BenchSummary) -> list[ReportTable]:
    endings = [name for name in ENDINGS if any(each.outcomes.get(name) for each in found.families)]
    rows = [(each.name, *(str(each.outcomes.get(name) or "") for name in endings)) for each in found.families]
    columns = ("", *(name.replace("_", " ") for name in endings))
    return [ReportTable("How answers ended, by family", columns, rows)] if endings else []


def used_cards(found: BenchSummary) -> list[ReportTable]:
    if not found.uplifts:
        return []
    rows = [
        (each.skill, str(each.answers), f"{each.correct / each.answers:.0%}", str(each.compared), speed(each.gain))
        for each in found.uplifts
    ]
    caption = (
        "Uplift: what answers with the card were worth over answers without it at the same task and turn. Selections differ for reasons, so it "
        "is a hint; the gate's own trials prove a card."
    )
    return [ReportTable("Skills", ("card", "answers", "of them right", "tasks compared", "uplift"), rows, caption)]


def spent(found: BenchSummary) -> ReportTable:
    spending = found.every.spending
    rows = [
        _amount("prompt tokens", spending.prompt_tokens, "{:,.0f}"),
        _amount("output tokens", spending.output_tokens, "{:,.0f}"),
        _amount("money", spending.money, "{:.4g}"),
        ("time of answers", *(clock(value) for value in _three(spending.seconds))),
    ]
    return ReportTable("What it took", ("", "mean of a task", "median of a task", "in all"), rows)


def unfair(run: BenchRun, found: BenchSummary) -> list[ReportTable]:
    """Tasks that are caption apart: unfit ones, and ones with trouble."""
    names = {task.id: task.name or task.id for task in run.tasks}
    tables = []
    if found.unfit:
        rows = [(names[task], reason) for task, reason in found.unfit.items()]
        tables.append(
            ReportTable(
                "Tasks that cannot be judged fairly", ("task", "why"), rows, "In every total that does not say otherwise."
            )
        )
    if found.troubled:
        rows = [(names[task], reason) for task, reason in found.troubled.items()]
        tables.append(ReportTable("Tasks with missing attempts", ("task", "why"), rows, "What is missing counts as failed."))
    return tables


def refusals(run: BenchRun) -> list[ReportTable]:
    """Tasks for which the compiler had no draft, where it was asked."""
    names = {task.id: task.name or task.id for task in run.tasks}
    rows = {names[one.task]: one.junk for one in run.attempts if one.author == "compiler" and one.verdict is None}
    caption = "Each counts as an answer without a kernel."
    return [ReportTable("What the compiler refused", ("task", "why"), list(rows.items()), caption)] if rows else []


def by_task(run: BenchRun, results_by_baseline: dict[str, ResultArrays]) -> ReportTable:
    spans = {name: results.surest() for name, results in results_by_baseline.items()}
    first = next(iter(results_by_baseline))
    results = results_by_baseline[first]
    rows = []
    for place, task in enumerate(results.tasks):
        attempts = results.attempts[place]
        right = int(results.correct[place].sum())
        caption = []
        for point, low, high in spans.values():
            known = (float(point[place]), float(low[place]), float(high[place])) if point[place] > 0 else None
            caption.append(span(known, right > 0) if attempts else NONE)
        level = NONE if task.level is None else str(task.level)
        ended = task_ending(attempts, first).replace("_", " ")
        by = (kept_author(attempts, first) or NONE,) if drafts_asked(run) else ()
        rows.append((task.name or task.id, level, task.family or NONE, ended, f"{right} of {len(attempts)}", *by, *caption))
    against = [f"against {name}" for name in results_by_baseline]
    by_whom = ("kept, by",) if drafts_asked(run) else ()
    columns = ("task", "level", "family", "best ending", "right answers", *by_whom, *against)
    return ReportTable("Task by task", columns, rows, "Speedup of the surest kernel, with the judge's interval.")


def _cell(cell: GridCell) -> tuple[str, ...]:
    return share(cell.correct), share(cell.fast[1.0]), share(cell.sure[1.0]), speed(cell.kept), speed(cell.mean)


def _spread(cells: Sequence[GridCell], most: int = 12) -> list[GridCell]:
    """All of few; of many those at powers of two, and the last."""
    if len(cells) <= most:
        return list(cells)
    return [cell for cell in cells if cell.samples & (cell.samples - 1) == 0 or cell is cells[-1]]


def _amount(name: str, amount: Amount, form: str) -> tuple[str, ...]:
    return name, *(form.format(value) for value in _three(amount))


def _three(amount: Amount) -> tuple[float, float, float]:
    return amount.mean, amount.median, amount.total
