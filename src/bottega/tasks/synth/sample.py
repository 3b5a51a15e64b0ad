"""One task from a seed and a number: drawn, scaled to the device, written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.tasks.synth.catalogue import CATALOGUE, FAMILIES
from bottega.tasks.synth.chain import ChainTask, chain_task, formula
from bottega.tasks.synth.compose import several, single
from bottega.tasks.synth.costs import TimeTarget, target_of
from bottega.tasks.synth.draw import FIRST_LEAD, Draw, rounded
from bottega.tasks.synth.graph import OperatorGraph
from bottega.tasks.synth.keys import keys_of, tree_key
from bottega.tasks.synth.measure import source_costs
from bottega.tasks.synth.networks import build
from bottega.tasks.synth.style import draw_style
from bottega.tasks.synth.variation import varied
from bottega.tasks.synth.write import ModuleWriter
from bottega.tasks.tags import tags_of

LEVELS = (1, 2, 3)
FORMULAS, CHAINS = "formulas", "chains"
"""Families that are asked for alone: what is drawn for the others stays what it was."""
ALONE: dict[str, tuple[str, Callable[[Random, TimeTarget, float], ChainTask]]] = {
    FORMULAS: ("formula", formula),
    CHAINS: ("chain", chain_task),
}
LEVEL_SHARES = {1: 0.42, 2: 0.43, 3: 0.15}
ATTEMPTS = 400
LOW_PRECISION = {"cpu": 0.04, "cuda": 0.16}
"""Share of tasks that are not float32."""
GROWTH = {"cpu": (1.0,), "cuda": (1.0, 1.5, 2.0, 3.0)}
"""How much longer than the least the sides of tensors are."""


@dataclass(frozen=True)
class Synthesised:
    task: Task
    seed: int
    index: int
    device: str
    level: int
    operators: tuple[str, ...]
    """Names of the catalogue, sorted, each as often as it occurs."""
    structure: str
    family: str
    """Of the operator that carries most of the work."""
    families: tuple[str, ...]
    dtype: str
    estimate_ms: float
    key: tuple[str, ...]
    """Two samples with a key in common are near duplicates."""


def synthesise(
    seed: int, index: int, device: str = "cpu", levels: Sequence[int] = LEVELS, families: Sequence[str] = ()
) -> Synthesised:
    """Task number `index` of the series `seed`: the same for ever, whoever asks, in whatever order."""
    target, wanted = target_of(device), tuple(sorted(set(families)))
    _check(levels, wanted)
    for attempt in range(ATTEMPTS):
        label = f"{seed}/{index}/{target.name}/{','.join(map(str, sorted(set(levels))))}/{','.join(wanted)}/{attempt}"
        chance = Random(label)
        possible = [level for level in sorted(set(levels)) if _possible(level, wanted)]
        if wanted and wanted[0] in ALONE:
            return _alone(wanted[0], label, seed, index, target, _aim(chance, target))
        level = chance.choices(possible, [LEVEL_SHARES[level] for level in possible])[0]
        aim = _aim(chance, target)
        made = (
            _network(label, seed, index, target, aim)
            if level == 3
            else _composed(label, seed, index, target, level, wanted, aim)
        )
        if made is not None:
            return made
    raise UsageError(f"no task could be composed for seed {seed}, index {index}: ask for more levels or families")


def variant(original: Task, seed: int, index: int, device: str = "cpu") -> Synthesised:
    """Number `index` of the series `seed` of variations of tasks that somebody wrote; nothing is known of what it costs."""
    source = varied(original.source, Random(f"{seed}/{index}/{original.id}"))
    level = original.level or 2
    task = _task(source, f"{original.name}_{index}", seed, index, level)
    families = tuple(tag for tag in task.tags if ":" not in tag)
    return Synthesised(
        task=task,
        seed=seed,
        index=index,
        device=target_of(device).name,
        level=level,
        operators=families,
        structure="variation",
        family=families[0] if families else "",
        families=families,
        dtype=next((tag.removeprefix("dtype:") for tag in task.tags if tag.startswith("dtype:") and "float" in tag), ""),
        estimate_ms=0.0,
        key=(tree_key(source),),
    )


def _aim(chance: Random, target: TimeTarget) -> float:
    """Milliseconds, within the window of the device, short ones as often as long ones."""
    return math.exp(chance.uniform(math.log(3 * target.shortest_ms), math.log(0.35 * target.longest_ms)))


def _check(levels: Sequence[int], families: Sequence[str]) -> None:
    if not levels or any(level not in LEVELS for level in levels):
        raise UsageError(f"levels {', '.join(map(str, levels)) or '(none)'}: tasks are written for the levels 1, 2 and 3")
    if special := sorted(set(families) & set(ALONE)):
        if len(set(families)) > 1 or 2 not in levels:
            raise UsageError(f"{special[0]} are a series of their own, of level 2: ask for them alone")
        return
    unknown = [family for family in families if family not in FAMILIES]
    if unknown:
        raise UsageError(f"unknown family {', '.join(unknown)}; the families are {', '.join((*FAMILIES, *ALONE))}")
    if not any(_possible(level, families) for level in levels):
        raise UsageError(f"no operator of {', '.join(families)} makes a task of level {', '.join(map(str, levels))}")


def _possible(level: int, families: Sequence[str]) -> bool:
    if not families:
        return True
    if level == 3:
        return "blocks" in families
    role = "alone" if level == 1 else "tail"
    return any(
        entry.family in families and (role in entry.roles or (level == 2 and "head" in entry.roles))
        for entry in CATALOGUE.values()
    )


def _composed(
    label: str, seed: int, index: int, target: TimeTarget, level: int, families: tuple[str, ...], aim: float
) -> Synthesised | None:
    graph = _scaled(label, target, level, families, aim)
    if graph is None:
        return None
    chance = Random(f"{label}/style")
    source = ModuleWriter(graph, draw_style(chance), chance).source()
    names = [node.operator.name for node in graph.nodes if node.operator is not None]
    costs = [
        (target.milliseconds(node.costs, graph.draw.dtype), node.operator.family) for node in graph.operators if node.operator
    ]
    found = {family for _, family in costs}
    heads = [family for _, family in costs if family in ("convolutions", "matmul")]
    return Synthesised(
        task=_task(source, "_".join(dict.fromkeys(names))[:64], seed, index, level),
        seed=seed,
        index=index,
        device=target.name,
        level=level,
        operators=tuple(sorted(names)),
        structure=graph.structure,
        family=heads[0] if heads else max(costs)[1],
        families=tuple(sorted(found)),
        dtype=graph.draw.dtype,
        estimate_ms=round(graph.milliseconds, 4),
        key=keys_of(graph, source),
    )


def _alone(family: str, label: str, seed: int, index: int, target: TimeTarget, aim: float) -> Synthesised:
    structure, make = ALONE[family]
    made = make(Random(f"{label}/{structure}"), target, aim)
    return Synthesised(
        task=_task(made.source, "_".join(dict.fromkeys(made.operators))[:64], seed, index, 2),
        seed=seed,
        index=index,
        device=target.name,
        level=2,
        operators=made.operators,
        structure=structure,
        family=family,
        families=(family,),
        dtype="float32",
        estimate_ms=round(made.milliseconds, 4),
        key=(tree_key(made.source),),
    )


def _task(source: str, name: str, seed: int, index: int, level: int) -> Task:
    task = Task(source, name, f"synth:{seed}/{index}", level)
    return replace(task, tags=tags_of(source, level))


def _scaled(label: str, target: TimeTarget, level: int, families: tuple[str, ...], aim: float) -> OperatorGraph | None:
    """The same draw, again and again with another first length, until it costs about what was aimed at."""
    low = Random(f"{label}/dtype").random() < LOW_PRECISION[target.name]
    dtype = Random(f"{label}/which dtype").choice(("float16", "bfloat16", "bfloat16")) if low else "float32"
    make = single if level == 1 else several
    grow = Random(f"{label}/grow").choice(GROWTH[target.name])
    for shrink in (grow, 0.5 * grow, 0.25 * grow, 0.12 * grow):
        lead, seen = float(FIRST_LEAD), (0.0, 0.0)
        for _ in range(5):
            graph = make(Draw(Random(f"{label}/draw"), target, max(1, round(lead)), shrink, dtype), families)
            if graph is None:
                break
            took = graph.milliseconds
            if 0.6 * aim <= took <= 1.6 * aim and graph.bytes <= target.largest_bytes:
                return graph
            slope = 1.0
            if seen[0] and seen[0] != lead and abs(math.log(took / seen[1])) > 1e-3:
                slope = min(4.0, max(0.3, math.log(took / seen[1]) / math.log(lead / seen[0])))
            seen = (lead, took)
            wanted = lead * (aim / took) ** (1 / slope)
            if graph.bytes > target.largest_bytes:
                wanted = min(wanted, 0.8 * lead * target.largest_bytes / graph.bytes)
            new = rounded(min(max(wanted, 1.0), 1 << 26), graph.draw.flavour)
            if new == round(lead):
                break
            lead = float(new)
        if (
            graph is not None
            and 1.5 * target.shortest_ms <= graph.milliseconds <= 0.6 * target.longest_ms
            and graph.bytes <= target.largest_bytes
        ):
            return graph
        if graph is not None and graph.milliseconds < aim:
            return None
    return None


def _network(label: str, seed: int, index: int, target: TimeTarget, aim: float) -> Synthesised | None:
    chance = Random(f"{label}/style")
    style = replace(
        draw_style(chance),
        arguments="all",
        defaults=chance.random() < 0.15,
        capitals=False,
        comments="none",
        functional="F",
        constants=chance.choice(("after", "after", "before")),
    )
    flavour, batch = Random(f"{label}/flavour").choice(("power", "power", "round", "odd")), FIRST_LEAD
    for _ in range(3):
        built = build(Random(f"{label}/network"), style, target, batch)
        costs = source_costs(built.source)
        took, fixed = target.milliseconds(costs, "float32"), target.launch_ms * len(costs)
        wanted = max(2, rounded((max(aim, 1.3 * fixed) - fixed) / ((took - fixed) / batch), flavour))
        if wanted == batch:
            break
        batch = min(wanted, 4096)
    moved = sum(one.bytes for one in costs)
    if not target.shortest_ms < took < 0.6 * target.longest_ms or moved > 8 * target.largest_bytes:
        return None
    return Synthesised(
        task=_task(built.source, built.name, seed, index, 3),
        seed=seed,
        index=index,
        device=target.name,
        level=3,
        operators=built.operators,
        structure="network",
        family="blocks",
        families=tuple(sorted({"blocks", *(CATALOGUE[name].family for name in built.operators)})),
        dtype="float32",
        estimate_ms=round(took, 4),
        key=(tree_key(built.source),),
    )
