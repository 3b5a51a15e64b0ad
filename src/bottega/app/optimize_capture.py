"""`bottega optimize CAPTURE`: the modules that a program called are searched, and what is found is put into a model by one file.

A capture does not have the program's model: the file looks for modules of the class and the name that its kernels were made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bottega.app.optimize_parts import Searched, search_costliest
from bottega.app.settings.optimize import OptimizeSettings
from bottega.app.terminal import say as say_line
from bottega.core.files import write
from bottega.episodes.delivery.result import OPTIMIZED
from bottega.tasks.capture_calls import read_capture

FILE = "optimized_modules.py"
LOADER = '''"""Kernels for modules that a program called. Needs torch and the files in modules/, and no Bottega.

Each was measured alone, not the whole program.
"""

import importlib.util
import pathlib
import sys

PARTS = {parts}
"""Folder, function that loads it, class, where it was called, and with what; the one with most calls last."""


def load(model):
    """Puts a kernel in the place of every module of the model that one was made for; the model goes on with its own parameters."""
    here, fast, refused = pathlib.Path(__file__).parent, {{}}, []
    for folder, entry, name, places, _ in PARTS:
        known = "bottega_" + folder.replace("/", "_")
        if known not in sys.modules:
            spec = importlib.util.spec_from_file_location(known, here / folder / "{file}")
            sys.modules[known] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[known])
        for place, there in list(model.named_modules(remove_duplicate=False)):
            behind = there
            while getattr(type(behind), "IS_DROP_IN", False):
                behind = behind.original
            there_too = any(not known_as or f".{{place}}".endswith(f".{{known_as}}") for known_as in places)
            if not place or type(behind).__name__ != name or not there_too:
                continue
            if (id(there), folder) not in fast:  # one module may stand in several places
                try:
                    new = getattr(sys.modules[known], entry)(there)
                except ValueError as error:  # it is built in another way
                    refused.append(f"{{place}}: {{error}}")
                    continue
                fast[id(there), folder] = fast[id(new), folder] = new
            model.set_submodule(place, fast[id(there), folder])
    if not fast:
        raise ValueError("no module of this model is one that a kernel was made for" + "".join(f"; {{each}}" for each in refused[:3]))
    return model
'''


def optimize_capture(source: Path, settings: OptimizeSettings) -> tuple[Path, list[Searched]]:
    """The kinds of calls of a program, the costliest first."""
    folder = settings.out if settings.out is not None else source
    say = (lambda text: None) if settings.quiet else lambda text: say_line(text, err=True)
    searched = list(search_costliest(read_capture(source), folder, settings, say, source=source))
    _write_loader(folder, searched)
    return folder, searched


def _write_loader(folder: Path, searched: Sequence[Searched]) -> None:
    parts = [
        (str(each.folder.relative_to(folder)), each.result.load, each.call.name, tuple(each.call.places), each.call.shapes)
        for each in sorted(searched, key=lambda each: each.call.count)
        if each.result is not None and each.result.outcome == "faster" and not each.result.refused
    ]
    if parts:
        rows = "".join(f"    {part!r},\n" for part in parts)
        write(folder / FILE, LOADER.format(parts=f"[\n{rows}]", file=OPTIMIZED))
    else:
        (folder / FILE).unlink(missing_ok=True)
