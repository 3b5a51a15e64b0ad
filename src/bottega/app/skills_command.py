"""`bottega skills`: look at the library. Commands that change it are in `skills_changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from bottega.app import skills_changes, skills_tables
from bottega.app.skills_changes import AsJson, Place
from bottega.app.terminal import print_json, say
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.errors import UsageError
from bottega.core.skill import SkillState
from bottega.core.workload import Workload
from bottega.episodes.writing_settings import LANGUAGE_NAMES
from bottega.skills.default_library import open_library
from bottega.skills.query import Query, query_for, query_from_text
from bottega.skills.retrieve import EVERY_STATE, Filter
from bottega.tasks.load import load_task

app = typer.Typer(
    help="The skill library: cards that each teach one optimisation, with the evidence for them. Without --library it is the one that "
    "BOTTEGA_LIBRARY names, or your own in ~/.local/share/bottega/skills, made on first use with the starter set.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
)

AsOf = Annotated[int | None, typer.Option("--at", metavar="VERSION", help="Read the library as it was at this version.")]


@app.command("list")
def list_command(
    library: Place = None,
    state: Annotated[str | None, typer.Option(help="proposed, admitted or retired; all but retired ones if left out.")] = None,
    language: Annotated[str | None, typer.Option(help=f"{LANGUAGE_NAMES}.")] = None,
    at: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """List cards with their state and intent.

    bottega skills list --state admitted
    """
    wanted = wanted_state(state)
    Filter(language=language)  # refuses a language that there is not
    with open_library(library) as opened:
        cards = [card for card in opened.cards(wanted, at) if wanted or card.state is not SkillState.RETIRED]
        cards = [card for card in cards if language is None or language in card.languages]
        if as_json:
            print_json([card.to_json() for card in cards])
        else:
            skills_tables.print_cards(
                cards, f"{opened.folder}, version {opened.version if at is None else at}: {len(cards)} cards"
            )


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A card's name.")],
    library: Place = None,
    at: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Show a card whole: text, conditions, evidence, use and history.

    bottega skills show gelu_erf_simd
    """
    with open_library(library) as opened:
        card, trials = opened.get(name, at), opened.evidence.trials(name)
        tallies, history = opened.uses.tallies(name), opened.history(name)
        if as_json:
            entries = [
                {"from": e.valid_from, "to": e.valid_to, "version": e.skill.version, "state": e.skill.state} for e in history
            ]
            facts = {"evidence": [t.to_json() for t in trials], "use": [skills_tables.tally_json(t) for t in tallies]}
            print_json({**card.to_json(), **facts, "history": entries})
        else:
            skills_tables.print_card(card, trials, tallies, history)


@app.command("search")
def search_command(
    words: Annotated[list[str] | None, typer.Argument(help="What to look for, in words.")] = None,
    task: Annotated[str | None, typer.Option(help="Look for what fits a task: a file or builtin:NAME.")] = None,
    library: Place = None,
    count: Annotated[int, typer.Option("--count", "-k", help="How many cards.")] = 20,
    state: Annotated[str, typer.Option(help="proposed, admitted, retired or all.")] = "admitted",
    language: Annotated[str | None, typer.Option(help=f"{LANGUAGE_NAMES}.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    scope: Annotated[
        str | None, typer.Option(help="general, or family/NAME for a family's cards and the general ones.")
    ] = None,
    at: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Find cards by words or for a task, best first. Only admitted ones unless --state says otherwise.

    bottega skills search --task builtin:rms_norm_rows --state all
    """
    if not words and task is None:
        raise UsageError("say what to look for: words, or --task FILE")
    if count < 1:
        raise UsageError("--count is at least 1")
    query = query_from_text(" ".join(words or ()))
    loaded = load_task(task) if task is not None else None
    if loaded is not None:
        query = query | query_for(loaded)

    def workload() -> Workload:
        return shared_tracer().workload(loaded) if loaded is not None else Workload(())

    states = EVERY_STATE if state == "all" else (wanted_state(state) or SkillState.ADMITTED,)
    only = Filter(states, language, device, scope, workload if loaded is not None else None)
    with open_library(library) as opened:
        hits = opened.search(Query(query.terms), count, only, at)
        if as_json:
            print_json([{"score": hit.score, **hit.skill.to_json()} for hit in hits])
        elif hits:
            skills_tables.print_hits(hits)
        else:
            elsewhere = opened.search(query, 1, Filter(EVERY_STATE), at)
            hint = "; cards in other states match: --state all" if elsewhere else ""
            say(f"no {state if state != 'all' else ''} card matches{hint}".replace("  ", " "))


@app.command("stats")
def stats_command(
    name: Annotated[str | None, typer.Argument(help="One card; all that were ever retrieved if left out.")] = None,
    library: Place = None,
    by_family: Annotated[bool, typer.Option("--by-family", help="A row for each family and device.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how cards fare in use: retrieved, selected, and what episodes gained with them over without.

    bottega skills stats --by-family
    """
    with open_library(library) as opened:
        if name is not None:
            opened.get(name)
        tallies = opened.uses.tallies(name) if by_family or name else opened.uses.totals()
        counts = {state.value: number for state, number in opened.counts().items()}
        if as_json:
            rows = [skills_tables.tally_json(tally) for tally in tallies]
            print_json({"version": opened.version, "cards": counts, "use": rows})
            return
        say(f"{opened.folder}, version {opened.version}: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
        if tallies:
            skills_tables.print_tallies(tallies)
        else:
            say("no episode has used a card yet")


def wanted_state(text: str | None) -> SkillState | None:
    if text is None:
        return None
    try:
        return SkillState(text)
    except ValueError:
        raise UsageError(f"unknown state {text!r}; use proposed, admitted or retired") from None


skills_changes.register(app)
