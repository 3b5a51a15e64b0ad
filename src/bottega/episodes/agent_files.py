"""The directory of an agent: files by path, some of which are given and cannot be changed.

It lives in this process and is laid out anew in every sandbox that runs something of it, so foreign code has no folder of the host to write to, and
what is protected is as it was given each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from bottega.core.errors import BottegaError

LONGEST_PATH, LONGEST_FILE, MOST_FILES = 120, 200_000, 100
TOLD = 10
"""Files of a program that were not taken, as far as they are named."""
SHOWN = 12_000
"""Characters of a file that are shown at once."""


class ToolError(BottegaError):
    """A tool cannot do what it was asked for. Its text is for the agent."""


@dataclass
class AgentFiles:
    given: dict[str, str]
    """Protected: the task, the test that comes with it, the skills."""
    own: dict[str, str] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, str]:
        return {**self.own, **self.given}

    def listing(self, folder: str = "") -> list[str]:
        """A line for each file in a folder and below."""
        found = sorted(path for path in self.all if path.startswith(folder))
        return [f"{path}{' (protected)' if path in self.given else ''}" for path in found]

    def read(self, path: str) -> str:
        name = _inside(path, folder=True)
        text = self.all.get(name)
        if text is None:
            lines = self.listing(f"{name}/" if name else "")
            if not lines:
                raise ToolError(f"{path}: no such file or folder")
            return "\n".join(lines)
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}\n… ({len(text) - SHOWN} more characters)"

    def write(self, path: str, text: str) -> str:
        name = self._changeable(path)
        if len(text) > LONGEST_FILE:
            raise ToolError(f"{name}: a file has at most {LONGEST_FILE} characters")
        if name not in self.own and len(self.own) >= MOST_FILES:
            raise ToolError(f"{name}: the directory holds {MOST_FILES} files, and no more")
        self.own[name] = text
        return f"{name}: {len(text.splitlines())} lines written"

    def edit(self, path: str, old: str, new: str) -> str:
        name = self._changeable(path)
        if name not in self.own:
            raise ToolError(f"{name}: no such file; write it first")
        count = self.own[name].count(old) if old else 0
        if count != 1:
            raise ToolError(f"{name}: the text to replace is there {count} times, and must be there once")
        return self.write(name, self.own[name].replace(old, new))

    def take(self, changed: Mapping[str, str]) -> list[str]:
        """Files that a program left. What is protected stays as it was; why files were not taken is returned, for the first of them."""
        refused = []
        for path, text in sorted(changed.items()):
            try:
                self.write(path, text)
            except ToolError as error:
                refused.append(f"not kept: {error}")
        more = [f"not kept: {len(refused) - TOLD} more files"] if len(refused) > TOLD else []
        return refused[:TOLD] + more

    def inside(self, path: str) -> str:
        """The name of a file that is there."""
        name = _inside(path)
        if name not in self.all:
            raise ToolError(f"{name}: no such file")
        return name

    def _changeable(self, path: str) -> str:
        name = _inside(path)
        top = name.split("/")[0]
        if name in self.given or any(other.startswith(f"{name}/") for other in self.all) or (top == "skills"):
            raise ToolError(f"{name}: is protected and cannot be changed")
        above = next((str(parent) for parent in PurePosixPath(name).parents if str(parent) in self.all), "")
        if above:
            raise ToolError(f"{name}: {above} is a file, and no folder")
        return name


def _inside(path: str, folder: bool = False) -> str:
    """A path relative to the directory, in plain form; `ToolError` for one that leads out of it."""
    parts = PurePosixPath(path.strip()).parts
    name = "/".join(part for part in parts if part != ".")
    bad = path.strip().startswith("/") or ".." in parts or len(name) > LONGEST_PATH or not name.isprintable()
    if bad or not (name or folder):
        raise ToolError(f"{path[:LONGEST_PATH]}: is no path within the directory")
    return name
