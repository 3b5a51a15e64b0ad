"""Cards in and out as JSON lines: our own, with evidence, and daVinci-kernel's, which come in as *proposed*.

A line is taken or refused by itself. A refused one is reported with its number and every reason, so that a file with one half-written
line loses one card, and running the import again after correcting it adds just that one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from bottega.core.errors import CardError, LibraryError, UsageError
from bottega.core.files import write_atomic
from bottega.core.skill import Skill, SkillState
from bottega.core.trial import Trial
from bottega.languages import snippet_language
from bottega.skills.library import Added, Library, OnConflict
from bottega.skills.validation import admit_data, made_readable

DAVINCI_FIELDS = frozenset(("name", "description", "content"))
_FENCE = re.compile(r"```[^\n]{0,200}\n(.*?)```", re.DOTALL)
_UNSTATED = "not stated by its source; check before use"
_TRIALS = TypeAdapter(list[Trial], config=ConfigDict(extra="forbid", allow_inf_nan=False))
"""Evidence as outside data: numbers that are none would only show when somebody reads the card."""


@dataclass
class Imported:
    """What an import did."""

    cards: Added = field(default_factory=Added)
    trials: int = 0
    refused: list[str] = field(default_factory=list)
    """One message for each line that was not taken."""


def import_file(
    library: Library, path: Path, on_conflict: OnConflict = "rename", trust: bool = False, mark: str = ""
) -> Imported:
    """Add the cards of a JSONL file. They come in as proposed unless `trust` says to keep the states they bring.

    `mark`: words that are put before the reason of every card that is not proposed.
    """
    report = Imported()
    skills, trials = [], []
    for where, data in _lines(path, report.refused):
        try:
            skill = read_foreign(data, where, path.name)
            found = _trials(data, where)
        except CardError as error:
            report.refused.append(str(error))
            continue
        if skill.state is not SkillState.PROPOSED and not trust:
            skill = replace(skill, state=SkillState.PROPOSED, reason=f"imported; {skill.state} where it came from")
        if skill.state is not SkillState.PROPOSED and mark:
            skill = replace(skill, reason=f"{mark}: {skill.reason}"[:400] if skill.reason else mark)
        skills.append(skill)
        trials.append(found)
    report.cards = library.add_many(skills, on_conflict, note=f"import {path.name}")
    # Evidence belongs to the card on whose line it stands, also when it was made with one that has since become part of it.
    given = [(name, trial) for name, found in zip(report.cards.names, trials) for trial in found if name]
    if given:
        with library.store.change("trial", f"import {path.name}") as change:
            named = [(f"import/{name}/{_key(trial)}", replace(trial, skill=name)) for name, trial in given]
            report.trials = library.evidence.record(change, named)
    return report


def export_lines(library: Library, skills: Iterable[Skill]) -> Iterator[str]:
    for skill in skills:
        data = skill.to_json()
        data["evidence"] = [trial.to_json() for trial in library.evidence.trials(skill.name)]
        yield json.dumps(data, ensure_ascii=False, sort_keys=True) + "\n"


def export_file(library: Library, skills: Sequence[Skill], path: Path) -> None:
    """All or nothing: a file that was there stays until the new one is whole."""
    path = path.absolute() if not path.is_symlink() else path.resolve()
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name a file in it, or write folders with --agent-skills")
    content = "".join(export_lines(library, skills)).encode()
    try:
        if path.exists() and not path.is_file():  # a device or a pipe, which a file must not replace
            path.write_bytes(content)
        else:
            write_atomic(path, content)
    except OSError as error:
        raise LibraryError(f"{path}: cannot be written: {error.strerror}; nothing was changed") from None


def read_foreign(data: Any, where: str, origin: str) -> Skill:
    """A card from one line: ours, or daVinci's by the fields it has."""
    if isinstance(data, dict) and data.keys() >= DAVINCI_FIELDS and "technique" not in data:
        return admit_data(from_davinci(data, origin, where), where)
    if isinstance(data, dict):
        data = {key: value for key, value in data.items() if key != "evidence"}
    return admit_data(data, where)


def from_davinci(data: dict[str, Any], origin: str, where: str) -> dict[str, Any]:
    """daVinci's card in our fields. It says nothing of conditions, so neither do we: its claim is kept and not trusted."""
    content = str(data.get("content") or "")
    blocks = _FENCE.findall(content)
    code = max(blocks, key=len).strip() if blocks else ""
    prose = _FENCE.sub("", content).strip() or (str(data.get("description") or "") if code else "")
    scope = str(data.get("scope") or "general")
    family = re.sub(r"[^a-z0-9]+", "_", scope.rpartition("/")[2].lower()).strip("_").lstrip("0123456789_")
    tags = data.get("tags") or ()
    tags = tags.replace(",", " ").split() if isinstance(tags, str) else tags if isinstance(tags, list) else ()
    claimed = _number(data.get("verify_speedup"))
    return {
        "name": _snake(str(data.get("name") or "")),
        "intent": _shortened(str(data.get("description") or ""), 160),
        "scope": "general" if scope == "general" or not family else f"family/{family}"[:64],
        "tags": [tag for tag in (_tag(str(tag)) for tag in tags) if tag][:10] or ["imported"],
        "languages": [snippet_language(content, "cuda").name],
        "devices": ["cuda"],
        "conditions": dict.fromkeys(("data_types", "layout", "storage", "pipeline", "hardware"), _UNSTATED),
        "anchor": _shortened(str(data.get("description") or ""), 400),
        "technique": _shortened(prose, 2400),
        "example": _shortened(code, 3200) if code else "(no example was given)",
        "effect": f"claimed {claimed:.2f}x on the task it came from" if claimed else "none claimed",
        "failures": [_UNSTATED],
        "provenance": {
            "origin": "davinci",
            "source": f"{origin} {where}"[:400],
            "claimed_speedup": claimed,
        },
        "reason": "imported; proposed until proved here",
    }


def _lines(path: Path, refused: list[str]) -> Iterator[tuple[str, Any]]:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield f"line {number}", json.loads(line)
                except (ValueError, RecursionError) as error:
                    cut = "; the line ends too early, as when its writer was stopped" if not line.endswith("\n") else ""
                    refused.append(f"line {number}: not a JSON object: {error}{cut}")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None


def _trials(data: Any, where: str) -> list[Trial]:
    try:
        return [_tamed(trial) for trial in _TRIALS.validate_python(data.get("evidence", []))]
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(str(step)[:64] for step in first["loc"])
        raise CardError(f"{where}: its evidence cannot be read: {place}: {first['msg']}") from None


def _tamed(trial: Trial) -> Trial:
    """Its texts are shown beside the card's, and keep to the same manners."""
    texts: dict[str, Any] = {
        name: made_readable(value)[:400] for name, value in trial.__dict__.items() if isinstance(value, str)
    }
    return replace(trial, **texts)


def _key(trial: Trial) -> str:
    return hashlib.sha256(json.dumps(trial.to_json(), sort_keys=True).encode()).hexdigest()[:24]


def _snake(name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    return words[:64].strip("_") if not words[:1].isdigit() else f"skill_{words}"[:64].strip("_")


def _tag(tag: str) -> str:
    return re.sub(r"[^a-z0-9_.+-]+", "_", tag.lower()).strip("_.+-")[:40]


def _shortened(text: str, longest: int) -> str:
    return text.strip() if len(text.strip()) <= longest else text.strip()[: longest - 1].rstrip() + "…"


def _number(value: Any) -> float | None:
    """A positive, finite number, or nothing."""
    try:
        sound = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    except OverflowError:
        return None
    return float(value) if sound else None
