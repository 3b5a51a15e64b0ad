"""A text of our own as a module, in this process; a stranger's text runs in the judge's sandbox alone."""

from __future__ import annotations

import types


def executed(source: str, name: str = "made") -> types.ModuleType:
    made = types.ModuleType(name)
    exec(compile(source, name, "exec"), made.__dict__)
    return made
