"""The scientist (GPU Kernel Scientist): plan experiments with predicted effects, run some, compare with what was measured, keep a notebook.

One plan a round, from the times of the kernels and the notebook alone: no profile is asked for. Of the planned experiments the most promising are
run, and the last place goes to the one that is furthest from all before. A plan that cannot be read is replaced by the next avenues, without
predictions, so that a model which cannot plan still searches: the chosen cards in the order in which their steps go in, then a fixed list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bottega.agents import scientist as scientist_agent
from bottega.agents.answers.answer import AnswerError
from bottega.agents.scientist import Experiment, TimedKernel
from bottega.core.event import Planned
from bottega.core.skill import Skill
from bottega.episodes.node import SearchNode, ranked
from bottega.episodes.strategies.instructions import LIST
from bottega.episodes.strategies.lanes import grown, schemes_in_use, side_by_side
from bottega.episodes.strategies.notebook import notebook_of
from bottega.episodes.writing import EpisodeSearch
from bottega.skills.relations import compatible, in_order

PLANNED = 5
"""Experiments of a plan; `samples` of them are run, at most."""
SHOWN = 4
"""Kernels that a plan sees, the best ones."""
AVENUES = tuple(filter(None, LIST))


async def scientist(search: EpisodeSearch) -> None:
    """`turns` rounds of `samples` kernels; the first round has no experiment yet."""
    settings, schemes = search.settings, schemes_in_use(search)
    for number in range(settings.turns):
        if search.finished():
            return
        names = [f"x{number}n{place}" for place in range(settings.samples)]
        rows: list[dict[str, Any]] = [{"node": name, "base": "", "reference": "", "change": ""} for name in names]
        if number and search.nodes:
            plans = list[Planned]()
            await side_by_side(search, [_plan(search, number, names, plans)])
            rows = [row for plan in plans for row in plan.experiments if row["node"]]

        async def run(row: dict[str, Any], scheme: int) -> None:
            if not search.finished():
                known = {node.id: node for node in search.nodes}
                history = [known[name] for name in (row["reference"], row["base"]) if name in known]
                await grown(search, row["node"], history, scheme, _asked(row))

        lanes = [run(row, schemes[(number * settings.samples + at) % len(schemes)]) for at, row in enumerate(rows)]
        await side_by_side(search, lanes)


def _asked(row: dict[str, Any]) -> str:
    if not row["change"]:
        return ""
    seen = " What the other kernel does better may be taken over." if row["reference"] else ""
    return f"Carry out this experiment on the last kernel, and change nothing else: {row['change']}{seen}"


async def _plan(search: EpisodeSearch, number: int, names: list[str], plans: list[Planned]) -> None:
    key = f"{search.episode}/plan/{number}"
    plans.append(await search.context.once(key, Planned, lambda: _planned(search, number, names, key)))


async def _planned(search: EpisodeSearch, number: int, names: list[str], key: str) -> Planned:
    context, settings = search.context, search.settings
    nodes = sorted(
        search.nodes, key=lambda node: node.id
    )  # not in the order in which they were judged: the same seed plans alike
    kernels = ranked(nodes, settings.baseline)
    entries = notebook_of(context.journal.events, search.episode, nodes, settings.baseline)
    skills = known_skills(search.schemes)
    given = scientist_agent.PlanInput(
        search.task,
        settings.language,
        context.device,
        [TimedKernel(node.id, _time(node, settings.baseline), node.turn.source) for node in kernels[:SHOWN]],
        [entry.line for entry in entries],
        max(PLANNED, settings.samples),
        settings.baseline,
        settings.stopping.target,
        skills,
    )
    messages = scientist_agent.messages(given, context.prompts, context.room(settings))
    found: list[Experiment] = []

    def read(text: str) -> dict[str, Any]:
        try:
            found.extend(scientist_agent.parse(text, [node.id for node in kernels], given.count))
        except AnswerError as error:
            return {"fault": str(error)}
        return {}

    async with context.phases.generating():
        turn = await context.generate("plan", messages, settings, key, read)
    tried = {entry.change for entry in entries}
    known = [*(f"{skill.name}: {skill.intent}" for skill in skills), *AVENUES]
    avenues = [text for text in known if text not in tried] or known
    planned = found or [Experiment(kernels[0].id, "", text) for text in avenues[: settings.samples]]
    run = chosen(planned, settings.samples)
    places = {id(one): name for one, name in zip(run, names)}
    rows = tuple(
        {"node": places.get(id(one), ""), **asdict(one)} for one in (*run, *(one for one in planned if one not in run))
    )
    return Planned(key, search.episode, number, turn, rows)


def known_skills(schemes: Sequence[Sequence[Skill]]) -> list[Skill]:
    """The cards of all schemes, what is required before what requires it, without those that conflict with a better one."""
    found = list({skill.name: skill for scheme in schemes for skill in scheme}.values())
    return in_order(compatible(found, len(found)))


def chosen(planned: list[Experiment], most: int) -> list[Experiment]:
    """Those with the largest predicted effect; of several the last is the one that is newest."""
    order = sorted(planned, key=lambda one: -(one.predict if one.predict is not None else 1.0))
    if most < 2 or len(order) <= most:
        return order[:most]
    first, rest = order[: most - 1], order[most - 1 :]
    return [*first, max(rest, key=lambda one: one.novelty)]


def _time(node: SearchNode, baseline: str) -> str:
    verdict, speedup = node.verdict, node.speedup(baseline)
    if verdict is None or speedup is None:
        return verdict.outcome.value if verdict is not None else "no kernel"
    own = verdict.times_ms.get("candidate")
    return ", ".join(filter(None, (f"{own:.4g} ms" if own else "", f"{speedup.point:.2f}x of {baseline}")))
