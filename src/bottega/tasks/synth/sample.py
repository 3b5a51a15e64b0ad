"""One task from a seed and a number: drawn, scaled to the device, written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.tasks.synth.catalogue import CATALOGUE, FAMILIES, KINDS
from bottega.tasks.synth.compose import GEMM, ModuleDraft, chain, formula, single
from bottega.tasks.synth.costs import TimeTarget, target_of
from bottega.tasks.synth.fitness import fault, is_quick
from bottega.tasks.synth.keys import draft_key, tree_key
from bottega.tasks.synth.networks import ComposedNetwork, build
from bottega.tasks.synth.scale import FIRST_BATCH, LARGEST_BATCH, Scaled, scaled
from bottega.tasks.synth.style import Style, draw_style
from bottega.tasks.synth.variation import varied
from bottega.tasks.synth.write import ModuleWriter
from bottega.tasks.tags import tags_of

LEVELS = (1, 2, 3)
FORMULAS, CHAINS = "formulas", "chains"
"""Families that are asked for alone: what is drawn for the others stays what it was."""
ALONE = {FORMULAS: formula, CHAINS: chain}
LEVEL_SHARES = {1: 0.42, 2: 0.43, 3: 0.15}
ATTEMPTS = 400
LARGEST_NETWORK = 4096
"""Batch of a network."""
LOW_PRECISION = {"cpu": 0.04, "cuda": 0.16}
"""Share of tasks that are not float32."""
Compose = Callable[[Random, Style, str, Sequence[str]], ModuleDraft | None]


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
    seed: int,
    index: int,
    device: str = "cpu",
    levels: Sequence[int] = LEVELS,
    families: Sequence[str] = (),
    low_precision: float | None = None,
) -> Synthesised:
    """Task number `index` of the series `seed`: the same for ever, whoever asks, in whatever order. `low_precision`: share of tasks that are
    not float32; None takes the device's."""
    target, wanted = target_of(device), tuple(sorted(set(families)))
    _check(levels, wanted)
    alone = ALONE.get(wanted[0]) if wanted else None
    for attempt in range(ATTEMPTS):
        label = f"{seed}/{index}/{target.name}/{','.join(map(str, sorted(set(levels))))}/{','.join(wanted)}/{attempt}"
        chance = Random(label)
        possible = [level for level in sorted(set(levels)) if _possible(level, wanted)]
        level = 2 if alone else chance.choices(possible, [LEVEL_SHARES[level] for level in possible])[0]
        share = LOW_PRECISION[target.name] if low_precision is None else low_precision
        at = _Place(label, seed, index, target, level, _aim(chance, target), share)
        if level == 3:
            made = _network(at)
        else:
            made = _composed(at, alone or (single if level == 1 else chain), () if alone else wanted)
        if made is not None:
            return replace(made, families=wanted, family=wanted[0]) if alone else made
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
    return any(kind.family in families and (kind.alone if level == 1 else kind.chain) for kind in KINDS.values())


@dataclass(frozen=True)
class _Place:
    """Which task of the series it is, and what it is to cost."""

    label: str
    seed: int
    index: int
    target: TimeTarget
    level: int
    aim: float
    low_precision: float

    def made(
        self,
        name: str,
        found: Scaled,
        operators: Sequence[str],
        structure: str,
        families: set[str],
        family: str,
        dtype: str,
        *keys: str,
    ) -> Synthesised:
        return Synthesised(
            task=_task(found.source, name, self.seed, self.index, self.level),
            seed=self.seed,
            index=self.index,
            device=self.target.name,
            level=self.level,
            operators=tuple(sorted(operators)),
            structure=structure,
            family=family,
            families=tuple(sorted(families)),
            dtype=dtype,
            estimate_ms=round(found.milliseconds, 4),
            key=(*keys, tree_key(found.source)),
        )


def _composed(at: _Place, compose: Compose, families: Sequence[str]) -> Synthesised | None:
    from bottega.tasks.synth.cost_mode import source_costs

    low = Random(f"{at.label}/dtype").random() < at.low_precision
    dtype = Random(f"{at.label}/which dtype").choice(("float16", "bfloat16", "bfloat16")) if low else "float32"
    style = draw_style(Random(f"{at.label}/style"))
    draft = compose(Random(f"{at.label}/draw"), style, at.target.name, families)
    if draft is None:
        return None
    writer = ModuleWriter(draft, style, f"{at.label}/write")
    flavour = Random(f"{at.label}/flavour").choice(("power", "power", "round", "odd"))
    try:
        few = writer.source(FIRST_BATCH)
        known = source_costs(few)
        if is_quick(known) and fault(few, FIRST_BATCH, LARGEST_BATCH):
            return None
        largest = 1 << 28 if draft.start == "vector" else LARGEST_BATCH
        known = known if dtype == "float32" else []
        found = scaled(lambda batch: writer.source(batch, dtype), at.target, dtype, at.aim, flavour, largest, known)
    except (RuntimeError, ValueError, IndexError, TypeError):  # it does not run in this data type, or not at another batch
        return None
    if found is None:
        return None
    names = draft.operators
    present = [CATALOGUE[name].family for name in names]
    return at.made(
        "_".join(dict.fromkeys(names))[:64],
        found,
        names,
        draft.structure if compose is not formula else "formula",
        set(present),
        next((family for family in present if family in GEMM), present[0]),
        dtype,
        draft_key(draft),
    )


def _task(source: str, name: str, seed: int, index: int, level: int) -> Task:
    task = Task(source, name, f"synth:{seed}/{index}", level)
    return replace(task, tags=tags_of(source, level))


def _network(at: _Place) -> Synthesised | None:
    chance = Random(f"{at.label}/style")
    style = replace(
        draw_style(chance),
        arguments="all",
        defaults=chance.random() < 0.15,
        capitals=False,
        comments="none",
        functional="F",
        constants=chance.choice(("after", "after", "before")),
    )
    flavour = Random(f"{at.label}/flavour").choice(("power", "power", "round", "odd"))

    def built(batch: int) -> ComposedNetwork:
        return build(Random(f"{at.label}/network"), style, at.target, batch)

    found = scaled(lambda batch: built(batch).source, at.target, "float32", at.aim, flavour, LARGEST_NETWORK)
    if found is None:
        return None
    network = built(found.batch)
    families = {"blocks", *(CATALOGUE[name].family for name in network.operators)}
    return at.made(network.name, found, network.operators, "network", families, "blocks", "float32")
