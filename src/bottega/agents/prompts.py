"""The wording of all prompts, in files that one can read and replace: a folder with a file of the same name overrules that file.

A file has parts, begun by lines like `--- user ---`; what stands before the first is the system message. `$name` is replaced by a value
that is never looked into, `$$` is a dollar sign. What has nothing to say goes: a paragraph whose placeholders are all empty, and such
a line in a paragraph that stays. Everything is read and checked at once, so that a typing error shows before a run begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Literal, get_args

from bottega.backbone.chat import Message
from bottega.core.errors import UsageError
from bottega.core.turn import Role
from bottega.languages import Language, kernel_languages, language_named

Style = Literal["terse", "compact", "full"]

SHIPPED = Path(__file__).parent / "prompt_templates"

_HEADER = frozenset(("name", "intent", "scope", "tags"))
_SKILL = frozenset(("name", "intent", "anchor", "conditions", "technique", "example", "effect", "failures"))
_TURN = frozenset(("title", "outcome", "summary", "diagnosis", "source"))
_SELECT = frozenset(("task", "callgraph", "language", "device", "k", "skills"))
_WRITE = frozenset(
    ("task", "callgraph", "language", "guide", "parts", "device", "precision", "goal", "skills", "past", "best", "instruction")
)
_SUMMARISE = frozenset(
    [
        "task",
        "language",
        "language_key",
        "language_keys",
        "device",
        "device_kind",
        "first",
        "best",
        "changed",
        "here",
        "gain",
        "known",
        "most",
    ]
)
_AGENT = frozenset(("files", "skills", "tools"))
_CRITICISE = frozenset(("task", "language", "device", "goal", "ask", "source", "outcome", "diagnosis", "profile"))
_INSTRUCT = frozenset(("language", "device", "task", "instruction", "credit", "others"))
_PLAN = frozenset(("task", "skills", "language", "device", "goal", "kernels", "notebook", "count"))

PromptName = Role | Literal["agent"]
PLACEHOLDERS: dict[PromptName, dict[str, frozenset[str]]] = {
    "select": {"system": _SELECT, "user": _SELECT, "skill": _HEADER},
    "write": {"system": _WRITE, "user": _WRITE, "skill": _SKILL, "turn": _TURN},
    "summarise": {"system": _SUMMARISE, "user": _SUMMARISE, "known": _HEADER, "turn": _TURN},
    "criticise": {"system": _CRITICISE, "user": _CRITICISE, "correct": frozenset(), "speed": frozenset()},
    "instruct": {"system": _INSTRUCT, "user": _INSTRUCT},
    "plan": {"system": _PLAN, "user": _PLAN, "kernel": frozenset(("name", "time", "source"))},
    "agent": {"system": _AGENT, "user": _AGENT, "plain": _AGENT},
}
"""Which parts a role's file has, and what each may name. An agent's parts stand behind those of the writer; `plain` is for a model that is told of
its tools in the prompt."""
NEEDED: dict[PromptName, tuple[str, ...]] = {
    "select": ("task", "skills"),
    "write": ("task",),
    "summarise": ("task", "best"),
    "criticise": ("ask", "source"),
    "instruct": ("instruction",),
    "plan": ("task", "notebook"),
    "agent": ("files",),
}
"""A prompt without these asks for nothing."""

_PART = re.compile(r"^--- *(\w+) *---[ \t]*$", re.M)

Paragraphs = tuple[tuple[tuple[Template, frozenset[str]], ...], ...]


@dataclass(frozen=True)
class Prompts:
    style: Style = "compact"
    """`terse` for models that were trained on these very strings and need no rules; `compact` for small ones, `full` for large ones."""
    folder: Path | None = None
    """Files here overrule the shipped ones of the same name, one by one."""
    _parts: dict[tuple[str, str], Paragraphs] = field(init=False, repr=False, compare=False)
    _guides: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.style not in get_args(Style):
            raise UsageError(f"unknown style of prompts {self.style!r}; use one of {', '.join(get_args(Style))}")
        _check_folder(self.folder)
        parts: dict[tuple[str, str], Paragraphs] = {}
        for role in PLACEHOLDERS:
            path, text = self._read(f"{role}.md")
            parts |= {(role, name): part for name, part in _parts_of(role, path, text).items()}
        object.__setattr__(self, "_parts", parts)
        given = [name for name in guide_names() if self.folder is not None and (self.folder / f"{name}.md").exists()]
        object.__setattr__(self, "_guides", {name: self._read(f"{name}.md")[1].strip() for name in given})

    def messages(self, role: PromptName, values: Mapping[str, str]) -> list[Message]:
        return [
            Message("system", _filled(self._parts[role, "system"], values)),
            Message("user", _filled(self._parts[role, "user"], values)),
        ]

    def piece(self, role: PromptName, part: str, values: Mapping[str, str]) -> str:
        """One skill, turn or header."""
        return _filled(self._parts[role, part], values)

    def shows(self, role: PromptName, name: str) -> bool:
        """Whether a role's prompt has a place for this value."""
        parts = (self._parts[role, "system"], self._parts[role, "user"])
        return any(name in names for paragraphs in parts for lines in paragraphs for _, names in lines)

    def guide(self, language: str) -> str:
        """How kernels are written in a language here: as the user's file has it, else by the language's own words."""
        return self._guides[language] if language in self._guides else _guide(language_named(language), self.style)

    def _read(self, name: str) -> tuple[Path, str]:
        path = SHIPPED / self.style / name
        if self.folder is not None and (self.folder / name).exists():
            path = self.folder / name
        try:
            return path, path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UsageError(f"{path}: the prompt cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}: the prompt is no UTF-8 text") from None


def guide_names() -> list[str]:
    """Languages whose guide a file in the user's folder may replace."""
    return [language.name for language in kernel_languages()]


def _guide(language: Language, style: Style) -> str:
    if style == "terse" or not language.has_kernels:
        return ""
    example = f"```python\n{language.example.strip()}\n```"
    if style == "compact":
        return f"{language.summary} Example:\n{example}".strip()
    return f"{language.rules}\n\nA complete file, for a `Model` that returns `torch.relu(x) * self.gain`:\n\n{example}"


def _check_folder(folder: Path | None) -> None:
    if folder is None:
        return
    if not folder.is_dir():
        raise UsageError(f"{folder}: no folder of prompts is there")
    known = {f"{name}.md" for name in (*PLACEHOLDERS, *guide_names())}
    for path in sorted(folder.glob("*.md")):
        if path.name not in known and path.name != "README.md":
            raise UsageError(f"{path}: overrules no prompt; their names are {', '.join(sorted(known))}")


def _parts_of(role: PromptName, path: Path, text: str) -> dict[str, Paragraphs]:
    allowed = PLACEHOLDERS[role]
    pieces = _PART.split(text)
    texts = {"system": pieces[0]}
    for name, body in zip(pieces[1::2], pieces[2::2]):
        if name not in allowed or name in texts:
            raise UsageError(
                f"{path}: part {name!r} is {'there twice' if name in texts else 'unknown'}; known: {', '.join(allowed)}"
            )
        texts[name] = body
    missing = [name for name in allowed if not texts.get(name, "").strip()]
    if missing:
        raise UsageError(f"{path}: has no part {missing[0]!r}; begin it with a line '--- {missing[0]} ---'")
    parts = {name: _paragraphs(path, body, allowed[name]) for name, body in texts.items()}
    named = {name for part in ("system", "user") for lines in parts[part] for _, names in lines for name in names}
    for name in NEEDED[role]:
        if name not in named:
            raise UsageError(f"{path}: does not use the placeholder ${name}, without which the prompt asks for nothing")
    return parts


def _paragraphs(path: Path, text: str, allowed: frozenset[str]) -> Paragraphs:
    found = []
    for paragraph in re.split(r"\n[ \t]*\n\s*", text.strip()):
        lines = []
        for line in paragraph.split("\n"):
            template = Template(line)
            if not template.is_valid():
                raise UsageError(f"{path}: a dollar sign that begins no placeholder in {line.strip()!r}; write $$ for the sign")
            names = frozenset(template.get_identifiers())
            if names - allowed:
                unknown = min(names - allowed)
                raise UsageError(f"{path}: unknown placeholder ${unknown}; known here: {', '.join(sorted(allowed))}")
            lines.append((template, names))
        found.append(tuple(lines))
    return tuple(found)


def _filled(paragraphs: Paragraphs, values: Mapping[str, str]) -> str:
    shown = []
    for lines in paragraphs:
        named = [name for _, names in lines for name in names]
        if named and not any(values[name] for name in named):
            continue
        kept = [template.substitute(values) for template, names in lines if not names or any(values[name] for name in names)]
        shown.append("\n".join(kept))
    return "\n\n".join(shown)
