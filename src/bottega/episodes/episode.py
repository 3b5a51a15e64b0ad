"""One episode, top to bottom: take drafts, retrieve, select, write and judge over several turns, summarise, propose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bottega.core.episode import Episode
from bottega.core.event import EpisodeEnded, EpisodeStarted
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.trace import Trace
from bottega.episodes.context import Workshop
from bottega.episodes.drafting import draw
from bottega.episodes.node import Node, faster
from bottega.episodes.selecting import retrieve, select
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies import STRATEGIES
from bottega.episodes.summarising import lines_of, summarise
from bottega.episodes.writing import Bench
from bottega.skills.gate import Rules, worth
from bottega.skills.uses import Scheme, Use


async def run_episode(workshop: Workshop, task: Task, settings: EpisodeSettings, name: str | None = None) -> Episode:
    """What a run that is resumed has done already is taken from its log; the rest is done now."""
    episode = name or task.id
    started = await workshop.journal.once(f"{episode}/start", EpisodeStarted, lambda: _start(workshop, episode, task, settings))
    offered = _offered(workshop, started)
    bench = Bench(workshop, episode, task, settings, [()])
    await draw(bench)
    selections: list[Trace] = []
    if not (bench.nodes and bench.finished()):  # a draft that is all one can wish for needs no skills
        bench.schemes, selections = await select(workshop, episode, task, offered, settings)
    await STRATEGIES[settings.strategy](bench)
    own = [node for node in bench.nodes if not node.author]  # skills and training learn from the model's kernels
    proposals, summaries = await summarise(workshop, episode, task, own, settings)
    _end(workshop, bench)
    return Episode(
        id=episode,
        task_id=started.task_id,
        task_name=started.task_name,
        family=started.family,
        device=started.device,
        library_version=started.library_version,
        retrieved=started.retrieved,
        schemes=tuple(tuple(skill.name for skill in scheme) for scheme in bench.schemes),
        traces=(*selections, *_writings(episode, own), *summaries),
        proposals=tuple(proposals),
        ended=bench.ended or "all turns taken",
    )


async def run_episodes(
    workshop: Workshop, tasks: Sequence[Task], settings: EpisodeSettings, at_once: int = 8
) -> list[Episode | Exception]:
    """Many episodes side by side, so that generation, compiling and judging overlap. One that fails does not end the others."""
    places = asyncio.Semaphore(at_once)

    async def one(task: Task) -> Episode | Exception:
        async with places:
            try:
                return await run_episode(workshop, task, settings)
            except Exception as error:
                return error

    return await asyncio.gather(*(one(task) for task in tasks))


def use_of(episode: Episode, run: str, rules: Rules) -> Use:
    """What the episode says about the skills it used, for the library's statistics."""
    schemes = []
    for number, names in enumerate(episode.schemes):
        verdicts = [verdict for trace in episode.of("write") if trace.scheme == number for verdict in trace.verdicts]
        schemes.append(Scheme(names, tuple(0.0 if verdict is None else worth(verdict, rules) for verdict in verdicts)))
    return Use(
        episode=f"{run}/{episode.id}",
        task_id=episode.task_id,
        family=episode.family,
        device=episode.device,
        library_version=episode.library_version,
        retrieved=episode.retrieved,
        schemes=tuple(schemes),
    )


async def _start(workshop: Workshop, episode: str, task: Task, settings: EpisodeSettings) -> EpisodeStarted:
    version = workshop.library.version if workshop.library is not None else 0
    retrieved = retrieve(workshop, task, settings, version)
    return EpisodeStarted(
        key=f"{episode}/start",
        episode=episode,
        task_id=task.id,
        task_name=task.name,
        family=next((tag for tag in task.tags if ":" not in tag), ""),
        source=task.source,
        device=settings.device,
        library_version=version,
        retrieved=tuple(skill.name for skill in retrieved),
    )


def _offered(workshop: Workshop, started: EpisodeStarted) -> list[Skill]:
    """The retrieved cards as they were when the episode began, also when it is resumed after the library has moved on."""
    if workshop.library is None:
        return []
    return [workshop.library.get(name, started.library_version) for name in started.retrieved]


def _end(workshop: Workshop, bench: Bench) -> None:
    best = bench.best if faster(bench.best) else None
    key = f"{bench.episode}/end"
    ended = EpisodeEnded(key, bench.episode, bench.ended or "all turns taken", best.id if best else "")

    known = workshop.journal.done(key, EpisodeEnded)
    if known is None or (known.ended, known.best) != (ended.ended, ended.best):  # a run that was given more to spend ends anew
        workshop.journal.write(ended)


def _writings(episode: str, nodes: Sequence[Node]) -> list[Trace]:
    """One trace for each line of kernels."""
    return [
        Trace(f"{episode}/write/{line[-1].id}", "write", tuple(node.turn for node in line), line[0].scheme)
        for line in sorted(lines_of(nodes), key=lambda line: line[-1].id)
    ]
