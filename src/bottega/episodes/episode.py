"""One episode, top to bottom: take drafts, retrieve, select, write and judge over several turns, tune the best, summarise, propose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bottega.core.episode import Episode
from bottega.core.event import Drafted, EpisodeEnded, EpisodeStarted
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.trace import Trace
from bottega.episodes.context import EpisodeContext
from bottega.episodes.node import SearchNode, faster
from bottega.episodes.selecting import offers_cards, retrieve, select
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies import STRATEGIES
from bottega.episodes.summarising import lines_of, summarise
from bottega.episodes.tuning import tune_best
from bottega.episodes.writing import EpisodeSearch, write_drafts
from bottega.languages import use_language
from bottega.skills.gate import Rules, worth
from bottega.skills.uses import Scheme, Use


async def run_episode(
    context: EpisodeContext, task: Task, settings: EpisodeSettings, name: str | None = None, model: bool = True
) -> Episode:
    """What a run that is resumed has done already is taken from its log; the rest is done now. Without `model` drafts are all."""
    use_language(settings.language)
    episode = name or task.id
    started = await context.journal.once(f"{episode}/start", EpisodeStarted, lambda: _start(context, episode, task, settings))
    offered = _offered(context, started)
    search = EpisodeSearch(context, episode, task, settings, [()])
    await write_drafts(search)
    selections: list[Trace] = []
    if model and not (search.nodes and search.finished()):  # a draft that is all one can wish for needs no skills
        search.schemes, selections = await select(context, episode, task, offered, settings)
    if model:
        await STRATEGIES.load(settings.strategy)(search)
    else:
        search.ended = search.ended or _after_drafts(context, episode)
    await tune_best(search)
    own = [node for node in search.nodes if not node.author]  # skills and training learn from the model's kernels
    proposals, summaries = await summarise(context, episode, task, own, settings)
    _end(context, search)
    return Episode(
        id=episode,
        task_id=started.task_id,
        task_name=started.task_name,
        family=started.family,
        device=started.device,
        library_version=started.library_version,
        retrieved=started.retrieved,
        schemes=tuple(tuple(skill.name for skill in scheme) for scheme in search.schemes),
        traces=(*selections, *(search.traces or _writings(episode, own)), *summaries),
        proposals=tuple(proposals),
        ended=search.ended or "all turns taken",
    )


def _after_drafts(context: EpisodeContext, episode: str) -> str:
    """Why a search without a model ended: there are no more drafts, or why there were none."""
    drafted = [event for event in context.journal.events if isinstance(event, Drafted) and event.episode == episode]
    return drafted[-1].text if drafted and not drafted[-1].drafts else "all drafts are judged"


async def run_drafts(context: EpisodeContext, task: Task, settings: EpisodeSettings, episode: str) -> None:
    """Drafts alone, until one is faster, in the log of an episode whose other kernels, if any, are judged. No model is asked."""
    use_language(settings.language)
    await write_drafts(EpisodeSearch(context, episode, task, settings, [()]), until_faster=True)


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


async def _start(context: EpisodeContext, episode: str, task: Task, settings: EpisodeSettings) -> EpisodeStarted:
    version = context.library.version if context.library is not None else 0
    retrieved: list[Skill] = []
    if context.library is not None and offers_cards(
        settings
    ):  # in a thread: a card's conditions may have the task's calls recorded
        retrieved = await asyncio.to_thread(retrieve, context.library, task, settings, context.device, version)
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


def _offered(context: EpisodeContext, started: EpisodeStarted) -> list[Skill]:
    """The retrieved cards as they were when the episode began, also when it is resumed after the library has moved on."""
    if context.library is None:
        return []
    return [context.library.get(name, started.library_version) for name in started.retrieved]


def _end(context: EpisodeContext, search: EpisodeSearch) -> None:
    best = search.best if faster(search.best) else None
    key = f"{search.episode}/end"
    ended = EpisodeEnded(key, search.episode, search.ended or "all turns taken", best.id if best else "")

    known = context.journal.done(key, EpisodeEnded)
    if known is None or (known.ended, known.best) != (ended.ended, ended.best):  # a run that was given more to spend ends anew
        context.journal.write(ended)


def _writings(episode: str, nodes: Sequence[SearchNode]) -> list[Trace]:
    """One trace for each line of kernels."""
    return [
        Trace(f"{episode}/write/{line[-1].id}", "write", tuple(node.turn for node in line), line[0].scheme)
        for line in sorted(lines_of(nodes), key=lambda line: line[-1].id)
    ]
