"""The pages of the documentation as text: which there are, what they link to, and the code in them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(?P<mark>```+|~~~+)(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=mark)\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
INLINE = re.compile(r"`([^`\n]+)`")
SPAN = re.compile(r"`([^`]+)`")
"""Inline code may be broken over two lines."""
HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """Without fenced and indented code, in which brackets are no links."""
        return re.sub(r"^ {4,}.*$", "", FENCE.sub("", self.text), flags=re.MULTILINE)

    @property
    def links(self) -> list[str]:
        return [found["target"] for found in LINK.finditer(INLINE.sub("``", self.prose))]

    @property
    def anchors(self) -> set[str]:
        """As Python-Markdown makes them from headings."""
        return {slug(found["text"]) for found in HEADING.finditer(FENCE.sub("", self.text))}

    def blocks(self, language: str) -> list[str]:
        return [found["body"] for found in FENCE.finditer(self.text) if found["language"] == language]

    @property
    def inline(self) -> list[str]:
        return [" ".join(found.split()) for found in SPAN.findall(self.prose)]

    @property
    def code(self) -> list[str]:
        """Every line of code, fenced, indented or inline, with lines that a backslash carries on joined."""
        indented = re.findall(r"^ {4,}(.*)$", FENCE.sub("", self.text.replace("\\\n", " ")), re.MULTILINE)
        fenced = [line for found in FENCE.finditer(self.text.replace("\\\n", " ")) for line in found["body"].splitlines()]
        return [*indented, *fenced, *self.inline]


def slug(heading: str) -> str:
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    ascii_only = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def pages() -> list[Page]:
    return [Page(path) for path in (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))]


def navigation() -> list[str]:
    """Every page that mkdocs.yml names, by its path below docs/."""

    class Loader(yaml.SafeLoader):
        """mkdocs.yml names Python functions, which only MkDocs itself needs."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda *_: None)
    return _named(yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"])


def _named(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [name for each in (entry.values() if isinstance(entry, dict) else entry) for name in _named(each)]
