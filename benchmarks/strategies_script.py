"""A scripted model for `strategies.py`: it knows an expert C++ kernel of each task, and writes it with some of its OpenMP pragmas left out.

By itself it leaves out each with probability 0.6, and a quarter of its answers does not compile. Shown a kernel, it keeps that kernel's pragmas and
adds each missing one with probability 0.4; advice adds one more. As an agent it has judged what passes check.py. So it is a model that does
better with feedback, by construction: with it the table says how well each strategy hands feedback on, not whether models use it.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from bottega.backbone.chat import Message, Sampling
from bottega.tasks.load import load_task

EXPERTS = Path(__file__).parent.parent / "examples/experts/cpp"
LEAVING, ADDING, BREAKING = 0.6, 0.4, 0.25
PLAN = {"base": "", "reference": "", "change": "add a missing pragma", "predict": 1.5, "novelty": 3}
_PRAGMA = re.compile(r"^ *#pragma omp [^\n]*$", re.M)
_CODE = re.compile(r"```python\n(.*?)```", re.S)
_FORWARD = re.compile(r"def forward\(.*?\n\n", re.S)


def script(messages: Sequence[Message], sampling: Sampling) -> str:
    system, text = messages[0].content, "\n".join(message.content for message in messages[1:])
    if "You review" in system:
        return "problem: loops are not shared or in lanes\nmethod: OpenMP\nplan: add the next missing pragma"
    if "You plan experiments" in system:
        names = re.findall(r"^## (\S+):", text, re.M)
        return "\n".join(json.dumps({**PLAN, "base": name}) for name in names[:2])
    if "You improve the instruction" in system:
        return "instruction: share the outer loop among cores and put the inner ones in lanes"
    draw, expert = random.Random(sampling.seed), _expert_for(text)
    if '"tool": "judge"' in system:
        return _step(messages, expert, draw)
    return f"summary: pragmas.\n```python\n{_written(expert, _seen(text, expert), draw, 'Change this next' in text)}```"


def _step(messages: Sequence[Message], expert: str, draw: random.Random) -> str:
    last = messages[-1].content
    if last.startswith("Result of write"):
        return '```json\n{"tool": "run", "path": "check.py"}\n```'
    if last.startswith("Result of run") and "close to the task" in last:
        return '```json\n{"tool": "judge"}\n```'
    seen = _seen("\n".join(message.content for message in messages), expert)
    if last.startswith("Result of judge") and seen is not None and len(seen) == len(_PRAGMA.findall(expert)):
        return '```json\n{"tool": "finish"}\n```'
    source = _written(expert, seen, draw, advised=False)
    return f'```json\n{{"tool": "write", "path": "kernel.py"}}\n```\n```python\n{source}```'


def _seen(text: str, expert: str) -> set[int] | None:
    """Which pragmas the last kernel has that is shown and compiles; None where there is none."""
    sources = [code for code in _CODE.findall(text) if "class ModelNew" in code and "broken" not in code]
    if not any("// pragma" in code or "// without" in code for code in sources):
        return None
    own = next(code for code in reversed(sources) if "// pragma" in code or "// without" in code)
    return {number for number, _ in enumerate(_PRAGMA.findall(expert)) if f"// pragma {number} " in own}


def _written(expert: str, seen: set[int] | None, draw: random.Random, advised: bool) -> str:
    count = len(_PRAGMA.findall(expert))
    chosen = {number for number in range(count) if draw.random() > LEAVING} if seen is None else set(seen)
    missing = [number for number in range(count) if number not in chosen]
    if seen is not None:
        chosen |= {number for number in missing if draw.random() < ADDING} | set(missing[:1] if advised else ())
    numbers = iter(range(count))

    def line(match: re.Match[str]) -> str:
        number = next(numbers)
        return f"// pragma {number} is in\n{match.group()}" if number in chosen else f"// without {number}"

    source = _PRAGMA.sub(line, expert)
    return source.replace('extern "C" void', 'broken extern "C" void', 1) if draw.random() < BREAKING else source


def _expert_for(text: str) -> str:
    """The kernel of the task whose `forward` the prompt shows."""
    for _, forward, source in _experts():
        if forward in text:
            return source
    raise LookupError(f"this model knows only {', '.join(name for name, _, _ in _experts())}")


@functools.cache
def _experts() -> tuple[tuple[str, str, str], ...]:
    found = []
    for path in sorted(EXPERTS.glob("*.py")):
        forward = _FORWARD.search(load_task(f"builtin:{path.stem}", size="cpu").source)
        if forward is not None:
            found.append((path.stem, forward.group().strip(), path.read_text(encoding="utf-8")))
    return tuple(found)
