"""A run of training: curves, and for RL the way from a step to its episodes, their answers, and the answers' tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bottega.service.dashboard.event_rows import EventRow
from bottega.service.dashboard.html import Html, badge, charts, el, facts, folded, joined, link, moment, number, section, table
from bottega.service.dashboard.line_index import IndexedLine, LineIndex
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, pages, tree, warned
from bottega.service.dashboard.reading import list_at, number_at, text_at, whole_at
from bottega.service.dashboard.search_tree import KernelNode, kernel_nodes, line_to
from bottega.service.dashboard.search_view import kernel_table
from bottega.service.dashboard.training_plots import Measurements, Rows, training_plots

SHOWN = ("reward", "reward_best", "correct", "fast_1", "coverage", "junk", "entropy", "loss", "nll", "gradient")


def steps_of(run: OpenRun, kind: str = "train") -> list[IndexedLine[EventRow]]:
    return [line for line in run.events.lines if line.row.type == "measured" and line.row.key.startswith(f"{kind}/")]


def training_overview(run: OpenRun, asked: Asked, links: Links) -> Html:
    steps = steps_of(run)
    alarms = [f"step {line.row.facts.get('step')}: {line.row.facts.get('note')}" for line in steps_of(run, "alarm")]
    return joined(
        warned([*alarms[-5:], *run.events.warnings()]),
        _facts(run, steps),
        charts(*training_plots(run.kind, {run.id: measurements(run)})),
        _steps(run, steps, asked, links),
        folded("Settings", tree(run.settings())),
    )


def measurements(run: OpenRun) -> Measurements:
    return Measurements(*(_rows(steps_of(run, kind)) for kind in ("train", "eval", "checkpoint")))


def _rows(lines: Sequence[IndexedLine[EventRow]]) -> Rows:
    return [(int(line.row.facts.get("step") or 0), line.row.values) for line in lines]


def _facts(run: OpenRun, steps: Sequence[IndexedLine[EventRow]]) -> Html:
    summary, ended, started = run.summary(), run.last("run_ended"), run.first("run_started")
    kept = [line.row for line in run.events.lines if line.row.type == "checkpointed"]
    wanted = started.facts.get("steps")
    last = steps[-1].row if steps else None
    return facts(
        (
            ("state", badge(summary.state)),
            ("model", started.facts.get("model", "")),
            ("data", text_at(run.settings(), "data", longest=400)),
            ("steps", f"{last.facts.get('step') if last else 0}{f' of {wanted}' if wanted else ''}"),
            ("best", summary.best),
            ("begun", moment(summary.begun)),
            ("last event", moment(summary.changed)),
            ("last checkpoint", str(kept[-1].facts.get("folder", "")) if kept else "none"),
            ("ended", ended.facts.get("ended", "") if ended else ""),
        )
    )


def _steps(run: OpenRun, steps: Sequence[IndexedLine[EventRow]], asked: Asked, links: Links) -> Html:
    if not steps:
        return el("p", "No step is finished yet.")
    columns = [name for name in SHOWN if any(name in line.row.values for line in steps[-200:])]
    newest = list(reversed(steps))
    part, others = pages(len(newest), asked, lambda **query: links.run(run.id, **query))
    rows, targets = [], []
    for line in newest[part]:
        step = int(line.row.facts.get("step") or 0)
        where = (
            links.run(run.id, view="step", step=step) if run.kind == "rl" else links.run(run.id, view="event", line=line.number)
        )
        note = el("span", line.row.facts.get("note", ""), cls="said")
        rows.append((link(where, step), *(number(line.row.values.get(name)) for name in columns), note))
        targets.append(where)
    return section("Steps, newest first", others, table(("step", *columns, ""), rows, "steps", targets), others, id_="steps")


@dataclass(frozen=True)
class StepLog:
    """The log of one step, with what each answer was credited with."""

    name: str
    index: LineIndex[EventRow]
    credits: dict[tuple[str, int], tuple[float | None, float | None]]
    """Reward and advantage by trace and turn."""

    def of_node(self, nodes: Sequence[KernelNode], node: KernelNode) -> tuple[float | None, float | None] | None:
        """Of a kernel: it is a turn of every line of kernels that goes through it; the first that was credited is told."""
        for trace, turn in self.credits:
            episode, _, last = trace.rpartition("/write/")
            if episode == node.wrote.row.episode and last:
                line = line_to(nodes, last)
                if turn < len(line) and line[turn] == node.name:
                    return self.credits[trace, turn]
        return None

    def of_key(self, key: str) -> tuple[float | None, float | None] | None:
        """Of a selection or a summary, whose trace is the event's own key."""
        return self.credits.get((key, 0))


def step_log(run: OpenRun, step: int) -> StepLog | None:
    name = f"steps/{step:06}"
    index = run.log(name)
    if index is None:
        return None
    credited = next((line for line in reversed(index.lines) if line.row.type == "credited"), None)
    found = {}
    for each in list_at(index.body(credited), "credits") if credited is not None else []:
        found[text_at(each, "trace", longest=400), whole_at(each, "turn")] = (
            number_at(each, "reward"),
            number_at(each, "advantage"),
        )
    return StepLog(name, index, found)


NO_LOG = (
    "The log of this step is not in the run directory: it is removed when no checkpoint needs it any more. "
    "`checkpoint.step_logs=all` keeps the logs of all steps."
)
NO_CREDITS = "Rewards and advantages of single answers are not in this log: it was written by an older Bottega, or the step is under way."


def step_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    step = asked.whole("step")
    measured = next((line.row for line in steps_of(run) if line.row.facts.get("step") == step), None)
    values = folded("All figures of the step", tree(dict(sorted(measured.values.items())), most=400)) if measured else ""
    log = step_log(run, step)
    if log is None:
        return joined(el("p", NO_LOG), values)
    rows, targets = [], []
    for started in [line.row for line in log.index.lines if line.row.type == "episode_started"]:
        nodes = kernel_nodes(log.index.lines, started.episode)
        credits = [pair for (trace, _), pair in log.credits.items() if trace.startswith(f"{started.episode}/")]
        rewards = [reward for reward, _ in credits if reward is not None]
        spread = [abs(advantage) for _, advantage in credits if advantage is not None]
        outcomes = sorted({node.outcome for node in nodes})
        where = links.run(run.id, view="episode", step=step, episode=started.episode)
        rows.append(
            (link(where, started.facts.get("task") or started.episode), started.facts.get("family", ""), started.facts.get("library_version", ""),
             len(nodes), joined(*(joined(badge(each), " ") for each in outcomes)), number(max(rewards) if rewards else None),
             number(sum(rewards) / len(rewards) if rewards else None), number(sum(spread) / len(spread) if spread else None))
        )  # fmt: skip
        targets.append(where)
    columns = (
        "task",
        "family",
        "library version",
        "kernels",
        "outcomes",
        "best reward",
        "mean reward",
        "mean size of advantage",
    )
    whole = link(links.run(run.id, view="events", log=log.name), "all events of this step")
    return joined(
        warned([*log.index.warnings(), *([] if log.credits else [NO_CREDITS])]),
        section("The batch: episodes of this step", table(columns, rows, "steps", targets), el("p", whole)),
        values,
    )


def episode_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    step, episode = asked.whole("step"), asked.text("episode")
    log = step_log(run, step)
    if log is None:
        return el("p", NO_LOG)
    lines = [line for line in log.index.lines if line.row.episode == episode]
    started = next((line.row for line in lines if line.row.type == "episode_started"), None)
    if started is None:
        return el("p", "No such episode is in this step.")
    nodes = kernel_nodes(lines, episode)

    def turn(line: IndexedLine[EventRow]) -> str:
        return links.run(run.id, view="turn", step=step, line=line.number)

    def more(node: KernelNode) -> tuple[Any, ...]:
        credit = log.of_node(nodes, node) or (None, None)
        scheme = node.wrote.row.facts.get("scheme", 0)
        return scheme, number(credit[0]), number(credit[1])

    parts: list[Any] = [
        facts((("task", started.facts.get("task")), ("family", started.facts.get("family")), ("device", started.facts.get("device")),
               ("library version", str(started.facts.get("library_version"))), ("cards retrieved", str(started.facts.get("retrieved"))))),
        warned([] if log.credits else [NO_CREDITS]),
    ]  # fmt: skip
    chosen = [line for line in lines if line.row.type == "selected"]
    if chosen:
        parts.append(section("Selections", _answers(chosen, log, turn, "names", "the empty selection")))
    kernels = kernel_table(nodes, lambda node: turn(node.wrote), more, ("scheme", "reward", "advantage"))
    parts.append(section("Kernels, turn by turn", kernels))
    summaries = [line for line in lines if line.row.type == "summarised"]
    if summaries:
        parts.append(section("Summaries", _answers(summaries, log, turn, "proposals", "no card")))
    return joined(*parts)


def _answers(lines: Sequence[IndexedLine[EventRow]], log: StepLog, target: Any, name: str, none: str) -> Html:
    rows, targets = [], []
    for line in lines:
        credit = log.of_key(line.row.key) or (None, None)
        tokens = line.row.facts.get("output_tokens")
        rows.append((link(target(line), line.row.facts.get(name) or none), number(credit[0]), number(credit[1]), number(tokens or None),
                     line.row.facts.get("fault", "")))  # fmt: skip
        targets.append(target(line))
    return table(("answer", "reward", "advantage", "tokens", "fault"), rows, "steps", targets)
