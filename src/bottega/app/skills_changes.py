"""The commands of `bottega skills` that change the library: add, import, export, verify, merge, retire, restore."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bottega.app.configured import configured
from bottega.app.skills_proving import SkillsVerifySettings, verify_command
from bottega.app.terminal import print_json, say, write_source
from bottega.core.errors import UsageError
from bottega.core.skill import Skill, SkillState
from bottega.skills.agent_skills import export_folders
from bottega.skills.default_library import open_library
from bottega.skills.exchange import export_file, export_lines, import_file
from bottega.skills.library import Library
from bottega.skills.shipped import add_shipped, add_starter
from bottega.skills.starter import read_card
from bottega.skills.upkeep import (
    DuplicatePair,
    duplicates,
    duplicates_of,
    merge,
    restore,
    retire,
    retire_unhelpful,
    unhelpful_cards,
)
from bottega.skills.validation import admit_data

Place = Annotated[Path | None, typer.Option("--library", metavar="PATH", help="The library's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


def add_command(
    files: Annotated[list[Path], typer.Argument(help="Cards: TOML or JSON files, one card each.")],
    library: Place = None,
    revise: Annotated[bool, typer.Option("--revise", help="Replace the text of a card that has the same name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add cards, as proposed. Faults are listed all at once; a name that is taken is refused unless --revise.

    bottega skills add card.toml
    """
    # What the file says of its state is not believed: a card is admitted by the gate.
    cards = [replace(_read(path), state=SkillState.PROPOSED, version=1, reason="") for path in files]
    with open_library(library, create=True) as opened:
        for card in cards:
            known = duplicates_of(opened, card)
            taken = revise and card.name in opened
            before = opened.version
            added = opened.revise(card.name, card) if taken else opened.add(card)
            if as_json:
                alike = [{"name": pair.keep, "likeness": pair.similarity} for pair in known]
                print_json({"name": added.name, "version": added.version, "alike": alike})
                continue
            done = "added" if not taken else "revised" if opened.version > before else "already there:"
            say(f"{done} {added.name}, {added.state}, library version {opened.version}")
            for pair in known:
                say(f"  {pair.similarity:.0%} like {pair.keep}: `bottega skills merge {pair.keep} {card.name}` makes them one")


def import_command(
    source: Annotated[
        str,
        typer.Argument(help="A JSONL file, ours or daVinci-kernel's; or `starter` or `shipped` for the cards that come along."),
    ],
    library: Place = None,
    on_conflict: Annotated[str, typer.Option(help="When another card has the name: rename, skip or error.")] = "rename",
    trust: Annotated[bool, typer.Option("--trust", help="Keep the states that cards bring; proposed otherwise.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add cards from a file. A line that cannot be taken is reported and the others go in; importing again adds nothing twice.

        bottega skills import starter

    Exit code 0 when every line was taken, 1 when some were refused.
    """
    if on_conflict not in ("rename", "skip", "error"):
        raise UsageError(f"unknown way {on_conflict!r} to settle a conflict; use rename, skip or error")
    with open_library(library, create=True) as opened:
        refused: list[str] = []
        if source == "starter":
            added, trials = add_starter(opened, on_conflict), 0  # type: ignore[arg-type]
        else:
            shipped = source == "shipped"
            report = add_shipped(opened, on_conflict) if shipped else import_file(opened, Path(source), on_conflict, trust)  # type: ignore[arg-type]
            added, trials, refused = report.cards, report.trials, report.refused
        if as_json:
            print_json({**added.__dict__, "trials": trials, "refused": refused, "version": opened.version})
        else:
            say(
                f"{len(added.added)} added, {len(added.renamed)} of them under another name, {len(added.already_there)} there already, "
                f"{len(added.skipped)} skipped, {len(refused)} refused, {trials} trials; library version {opened.version}"
            )
            for old, new in added.renamed.items():
                say(f"  {old} is now {new}: another card has its name")
    for message in refused:
        say(f"bottega: {source}: {message}", err=True)
    raise typer.Exit(1 if refused else 0)


def export_command(
    output: Annotated[
        Path | None, typer.Argument(help="A file, or a folder with --agent-skills; standard output if left out.")
    ] = None,
    library: Place = None,
    names: Annotated[list[str] | None, typer.Option("--name", help="Only this card; may be given often.")] = None,
    state: Annotated[str | None, typer.Option(help="Only proposed, admitted or retired ones.")] = None,
    agent_skills: Annotated[
        bool, typer.Option("--agent-skills", help="Folders with a SKILL.md each, as coding agents load them.")
    ] = False,
    at: Annotated[int | None, typer.Option("--at", metavar="VERSION", help="The library as it was at this version.")] = None,
) -> None:
    """Write cards with their evidence as JSONL, or as Agent Skills folders.

    bottega skills export cards.jsonl --state admitted
    """
    if agent_skills and output is None:
        raise UsageError("--agent-skills needs a folder to write to")
    if state is not None and state not in list(SkillState):
        raise UsageError(f"unknown state {state!r}; use proposed, admitted or retired")
    with open_library(library) as opened:
        cards = [opened.get(name, at) for name in names] if names else opened.cards(SkillState(state) if state else None, at)
        if output is None:
            for line in export_lines(opened, cards):
                write_source(line)
        elif agent_skills:
            export_folders(opened, cards, output)
            say(f"wrote {len(cards)} skills to {output}")
        else:
            export_file(opened, cards, output)
            say(f"wrote {len(cards)} cards to {output}")


def merge_command(
    names: Annotated[list[str] | None, typer.Argument(help="The card to keep, then those that become part of it.")] = None,
    library: Place = None,
    least: Annotated[float, typer.Option("--alike", help="From which likeness on two cards are near-duplicates.")] = 0.6,
    every: Annotated[bool, typer.Option("--all", help="Merge every pair that is found.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge near-duplicates with their evidence. Without names it lists the pairs that are alike; --all merges them.

    bottega skills merge --alike 0.7
    """
    if not 0 < least <= 1:
        raise UsageError("--alike is a share: above 0, and 1 at most")
    with open_library(library) as opened:
        if names:
            merge(opened, names[0], names[1:])
            merged = [DuplicatePair(names[0], name, 1.0) for name in names[1:]]
        else:
            merged = duplicates(opened, least)
            if every:
                merged = [pair for pair in merged if _merge_living(opened, pair)]
        if as_json:
            print_json([{"keep": pair.keep, "drop": pair.drop, "likeness": pair.similarity} for pair in merged])
        elif not merged:
            say(f"no two cards are {least:.0%} alike")
        for pair in merged if not as_json else ():
            done = "merged into" if names or every else f"is {pair.similarity:.0%} like"
            say(f"{pair.drop} {done} {pair.keep}")


def retire_command(
    name: Annotated[str | None, typer.Argument(help="A card's name.")] = None,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    tired_ones: Annotated[
        bool, typer.Option("--tired", help="Every admitted card whose uplift stayed at or below nothing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --tired: only say which.")] = False,
    library: Place = None,
    as_json: AsJson = False,
) -> None:
    """Retire a card, with the reason. It is kept, no longer offered, and can be restored.

    bottega skills retire gelu_erf_simd --reason "no gain"
    """
    if (name is None) is not tired_ones:
        raise UsageError("give a card's name and --reason, or --tired")
    with open_library(library) as opened:
        if name is not None:
            gone = [(name, retire(opened, name, reason).reason)]
        else:
            gone = unhelpful_cards(opened) if dry_run else retire_unhelpful(opened)
        if as_json:
            print_json([{"name": card, "reason": why} for card, why in gone])
        for card, why in gone if not as_json else ():
            say(f"{'would retire' if dry_run else 'retired'} {card}: {why}")
        if not gone and not as_json:
            say("no card is tired")


def restore_command(
    name: Annotated[str, typer.Argument(help="A retired card.")],
    reason: Annotated[str, typer.Option(help="Why.")] = "brought back",
    library: Place = None,
    as_json: AsJson = False,
) -> None:
    """Bring a retired card back, as proposed; a merged one becomes a card of its own again.

    bottega skills restore gelu_erf_simd
    """
    with open_library(library) as opened:
        card = restore(opened, name, reason)
        if as_json:
            print_json(card.to_json())
        else:
            say(f"restored {name}, {card.state}: prove it with `bottega skills verify {name}`")


def register(app: typer.Typer) -> None:
    app.command("add")(add_command)
    app.command("import")(import_command)
    app.command("export")(export_command)
    configured(app, SkillsVerifySettings, "NAME", "The card to prove.")(verify_command)
    app.command("merge")(merge_command)
    app.command("retire")(retire_command)
    app.command("restore")(restore_command)


def _read(path: Path) -> Skill:
    if not path.is_file():
        raise UsageError(f"{path}: no such file; a card is a TOML or JSON file")
    try:
        if path.suffix == ".toml":
            return read_card(path, origin="hand")
        return admit_data(json.loads(path.read_text(encoding="utf-8")), path.name)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not a card: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None


def _merge_living(library: Library, pair: DuplicatePair) -> bool:
    """A card may be in several pairs; once it is retired the others are settled."""
    living = all(library.get(name).state is not SkillState.RETIRED for name in (pair.keep, pair.drop))
    if living:
        merge(library, pair.keep, [pair.drop], f"{pair.similarity:.0%} alike")
    return living
