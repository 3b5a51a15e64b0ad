"""Cards as Agent Skills: one folder each with a SKILL.md, front matter and body, which coding agents load as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from bottega.core.errors import LibraryError
from bottega.core.skill import NOTHING_MORE, Skill
from bottega.core.trial import Trial
from bottega.languages import language_named
from bottega.skills.library import Library
from bottega.skills.relations import relations_text
from bottega.skills.skill_card import BENCHMARK, CARD, benchmark_page, skill_card

SKILL_FILE = "SKILL.md"
_NO_STRINGS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
"""Names that YAML reads as something else unless they are quoted."""


def export_folders(library: Library, skills: Sequence[Skill], folder: Path) -> list[Path]:
    """`<name>/SKILL.md` for each card, its skill card, and a benchmark page where it was tried. The format wants hyphens in names."""
    written = []
    try:
        for skill in skills:
            place = folder / folder_name(skill)
            place.mkdir(parents=True, exist_ok=True)
            trials = library.evidence.trials(skill.name)
            pages = {SKILL_FILE: skill_markdown(skill, trials), CARD: skill_card(skill, trials)}
            if trials:
                pages[BENCHMARK] = benchmark_page(skill, trials)
            for name, text in pages.items():
                (place / name).write_text(text, encoding="utf-8")
            written.append(place)
    except OSError as error:
        raise LibraryError(f"{folder}: cannot be written: {error.strerror}") from None
    return written


LONGEST_PAGE, LONGEST_DESCRIPTION = 200_000, 1024


def read_folders(folder: Path) -> dict[str, str]:
    """The SKILL.md files below a folder as they are, whoever wrote them, by the name of the folder that each lies in."""
    found: dict[str, str] = {}
    try:
        for path in sorted(folder.rglob(SKILL_FILE)):
            if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
                raise LibraryError(f"{path}: is no file within {folder}: what it leads to would be given to the model")
            if path.stat().st_size > LONGEST_PAGE:
                raise LibraryError(f"{path}: is larger than {LONGEST_PAGE:,} bytes")
            found[path.parent.name] = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LibraryError(f"{folder}: a {SKILL_FILE} cannot be read: {error}") from None
    if not found:
        raise LibraryError(f"{folder}: no {SKILL_FILE} lies there or below; name a folder of agent skills")
    return found


def description_of(page: str) -> str:
    """What the front matter of a SKILL.md says it is for; empty where it says nothing."""
    front = re.match(r"---\n(.*?)\n---", page, re.S)
    line = re.search(r"^description:[ \t]*(.+)$", front.group(1), re.M) if front else None
    return line.group(1).strip().strip("\"'")[:LONGEST_DESCRIPTION] if line else ""


def folder_name(skill: Skill) -> str:
    return skill.name.replace("_", "-")


def skill_markdown(skill: Skill, trials: Sequence[Trial] = ()) -> str:
    description = f"{skill.intent} Use when writing {', '.join(skill.languages)} kernels: {skill.anchor}"
    front = {
        "name": folder_name(skill),
        "description": description[:LONGEST_DESCRIPTION],
        "metadata": {
            "scope": skill.scope,
            "tags": " ".join(skill.tags),
            "state": skill.state.value,
            "version": str(skill.version),
            "origin": skill.provenance.origin,
        },
    }
    return "---\n" + _yaml(front) + "---\n\n" + markdown(skill, trials)


def markdown(skill: Skill, trials: Sequence[Trial] = ()) -> str:
    """The card as a page for people and models."""
    parts = [f"# {skill.name.replace('_', ' ')}", skill.intent, "## Where it applies", skill.anchor, "## When it is sound"]
    asked = [f"- {kind.replace('_', ' ')}: {text}" for kind, text in skill.stated if text != NOTHING_MORE]
    asked += [f"- other optimisations: {text}" for text in [relations_text(skill.relations)] if text]
    asked += [f"- checked by code: {' '.join(skill.applies_to.told.values())}"] if skill.applies_to else []
    parts.append("\n".join(asked) or "Nothing more is needed.")
    # A fence longer than any in the example, so that none ends it early.
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`+", skill.example)), default=0))
    parts += ["## How", skill.technique, f"{fence}{language_named(skill.languages[0]).fence}\n{skill.example.strip()}\n{fence}"]
    parts += ["## What it changes", skill.effect, "## What goes wrong otherwise"]
    parts.append("\n".join(f"- {failure}" for failure in skill.failures))
    if trials:
        parts += ["## Evidence", "\n".join(f"- {trial_line(trial)}" for trial in trials)]
    return "\n\n".join(parts) + "\n"


def trial_line(trial: Trial) -> str:
    gain = f"{trial.gain.point:.2f}x ({trial.gain.low:.2f} to {trial.gain.high:.2f})"
    return f"{trial.decision} on {trial.task_name}, {trial.device}: {gain} over {len(trial.with_skill)} pairs against {trial.baseline}"


def _yaml(values: Mapping[str, object], indent: str = "") -> str:
    """Strings and one level of nesting. JSON strings are YAML strings, which spares a dependency and any doubt about quoting."""
    lines = ""
    for key, value in values.items():
        if isinstance(value, dict):
            lines += f"{indent}{key}:\n{_yaml(value, indent + '  ')}"
        else:
            plain = key == "name" and value not in _NO_STRINGS
            lines += f"{indent}{key}: {value if plain else json.dumps(str(value), ensure_ascii=False)}\n"
    return lines
