"""Card data out of an answer: the keyed lines that a small model can learn, or JSON, brought into the shape that validation asks for.

Only what is harmless is filled in: the language and device of the task, and its families as scope and tags. What makes a card worth
having (conditions, technique, example, failures) must come from the model, or validation refuses it.
"""

from __future__ import annotations

import math
import re
from typing import Any

from bottega.agents.answers.fences import blocks
from bottega.core.skill import AppliesTo, SkillState
from bottega.core.task import Task
from bottega.core.workload import SIZES
from bottega.languages import kernel_languages

LONGEST = 100_000
"""Characters of an answer that are looked at."""
CONDITIONS = ("data_types", "layout", "storage", "pipeline", "hardware")
TEXTS = ("name", "intent", "scope", "anchor", "technique", "example", "effect")
LISTS = ("tags", "languages", "devices", "failures")
APPLIES_TO = "applies_to"
_WRAPPERS = ("skills", "cards", "proposals", "new_skills")

_KEY = re.compile(rf"[-*#> \t]*({'|'.join((*TEXTS, *LISTS, *CONDITIONS, APPLIES_TO))})\**[ \t]*:\**(.*)", re.I)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[^`]*")


def keyed_cards(text: str) -> list[dict[str, Any]]:
    """Cards as lines `key: value`; a value runs on until the next key that its card does not have yet. `name` begins a card."""
    cards: list[dict[str, list[str]]] = []
    key = fence = ""
    for line in text[:LONGEST].split("\n"):
        mark = _FENCE.fullmatch(line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and line.strip().startswith(fence):
            fence = ""
        match = None if fence or mark else _KEY.fullmatch(line)
        found = match.group(1).lower() if match else ""
        if match and found == "name" and match.group(2).strip():
            cards.append({"name": [match.group(2)]})
            key = found
        elif match and cards and found not in cards[-1]:
            cards[-1][found] = [match.group(2)]
            key = found
        elif cards and key:
            cards[-1][key].append(line)
    return [{key: "\n".join(lines).strip() for key, lines in card.items()} for card in cards]


def listed_cards(values: list[Any]) -> list[dict[str, Any]] | None:
    """Cards of a JSON answer: a list, an object with a list, or single objects. None where none of these is there."""
    cards: list[dict[str, Any]] = []
    known = False
    for value in values:
        items = value
        if isinstance(value, dict):
            wrapped = next((value[key] for key in _WRAPPERS if isinstance(value.get(key), list)), None)
            items = wrapped if wrapped is not None else [value]
        some = [item for item in items if isinstance(item, dict) and "name" in item]
        known = known or not items or bool(some)
        cards += some
    return cards if known else None


def card_data(data: dict[str, Any], task: Task, language: str, device: str, gain: float) -> dict[str, Any]:
    """The fields of a card and no others, in the types that validation asks for; state and provenance are ours."""
    lowered = {str(key).strip().lower(): value for key, value in data.items()}
    card: dict[str, Any] = {key: _text(lowered[key]) for key in TEXTS if key in lowered}
    card |= {key: _items(lowered[key], key) for key in LISTS if key in lowered}
    card["conditions"] = _conditions(lowered)
    if lowered.get(APPLIES_TO):
        card[APPLIES_TO] = _typed(lowered[APPLIES_TO])
    if isinstance(card.get("name"), str):
        card["name"] = re.sub(r"[\s-]+", "_", card["name"].strip("`*\"' \n").lower())
    if isinstance(card.get("example"), str):
        inside = blocks(card["example"])
        card["example"] = inside[0].body if inside else card["example"]
    families = [tag for tag in task.tags if re.fullmatch(r"[a-z][a-z0-9_]*", tag)]
    card["scope"] = card.get("scope") or (f"family/{families[0]}" if families else "general")
    card["tags"] = card.get("tags") or families[:6] or [language]
    card["languages"] = card.get("languages") or [language]
    card["devices"] = card.get("devices") or [device]
    claimed = gain if math.isfinite(gain) and gain > 0 else None
    card["provenance"] = {"origin": "summary", "source": task.label[:400], "task": task.id, "claimed_speedup": claimed}
    card["state"] = SkillState.PROPOSED
    return card


def applies_to_line(conditions: AppliesTo) -> str:
    """`dtypes=float32; operators=linear; columns=64..127`: typed conditions as a keyed answer has them."""
    data = conditions.to_json()
    ranges = data.pop("sizes", {})
    lists = [f"{name}={', '.join(values)}" for name, values in data.items()]
    return "; ".join((*lists, *(f"{name}={low}..{high}" for name, (low, high) in ranges.items())))


def _typed(value: Any) -> Any:
    """The same read back; what has another form is left to validation, which refuses it."""
    if not isinstance(value, str):
        return value
    if value.strip().rstrip(".").lower() == "none":
        return {}
    found: dict[str, Any] = {}
    for part in value.replace("\n", ";").split(";"):
        name, _, said = (piece.strip() for piece in part.partition("="))
        if name in SIZES:
            ends = re.fullmatch(r"(\d{1,19})(?:\.\.(\d{1,19}))?", said)
            found.setdefault("sizes", {})[name] = [int(ends[1]), int(ends[2] or ends[1])] if ends else said
        elif name:
            found[name] = [one.strip() for one in said.split(",") if one.strip()]
    return found


def _text(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return value


def _items(value: Any, key: str) -> Any:
    """A list of words, or of sentences for `failures`."""
    if isinstance(value, str):
        value = value.split("\n") if key == "failures" else re.split(r"[,;\n]", value.strip("[]"))
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return value
    items = [item.strip().lstrip("-*•").strip() for item in value]
    if key != "failures":
        items = [re.sub(r"\s+", "-", item.strip("`\"' ").lower()) for item in items]
    if key == "languages":
        names = {alias: language.name for language in kernel_languages() for alias in language.aliases}
        items = [names.get(item, item) for item in items]
    return [item for item in items if item]


def _conditions(data: dict[str, Any]) -> dict[str, Any]:
    """The five, from an object of their own or from the card itself."""
    own = data.get("conditions")
    given = {str(key).lower().replace(" ", "_"): value for key, value in own.items()} if isinstance(own, dict) else data
    return {kind: _plain(given[kind]) for kind in CONDITIONS if kind in given}


def _plain(value: Any) -> Any:
    """`None.` and its like mean that nothing more is asked."""
    if isinstance(value, str) and value.strip().rstrip(".").lower() in ("none", "n/a", "nothing"):
        return "none"
    return value
