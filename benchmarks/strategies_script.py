"""A scripted model for `strategies.py`: it knows an expert kernel of each task, and writes it with some of its parts left out.

Parts are what the rules of `bottega lineage` take out of the kernel (threads, tiles, stages, hints, …).
By itself it leaves out each with probability 0.6, and a quarter of its answers does not compile. Shown a kernel, it keeps that kernel's parts and
adds each missing one with probability 0.4; advice adds one more. As an agent it has judged what passes check.py. So it is a model that does
better with feedback, by construction: with it the table says how well each strategy hands feedback on, not whether models use it.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from bottega.backbone.chat import Message, Sampling
from bottega.lineage.rule import Rule, rules_of
from bottega.lineage.walk import features_found
from bottega.tasks.load import load_task

EXPERTS = Path(__file__).parent.parent / "examples/experts"
LEAVING, ADDING, BREAKING = 0.6, 0.4, 0.25
PLAN = {"base": "", "reference": "", "change": "", "predict": 1.5, "novelty": 3}
MOST_PLACES = 8
"""Of one rule in a kernel, at most."""
_CODE = re.compile(r"```python\n(.*?)```", re.S)
_FORWARD = re.compile(r"def forward\(.*?\n\n", re.S)


@dataclass(frozen=True)
class ScriptedExpert:
    name: str
    forward: str
    count: int
    """Parts that it has."""
    with_parts: Callable[[Set[int]], str]
    """The kernel with these parts only, which says of each whether it is in."""
    sound: str
    broken: str
    """Put in place of `sound` it does not compile."""


def script(messages: Sequence[Message], sampling: Sampling) -> str:
    system, text = messages[0].content, "\n".join(message.content for message in messages[1:])
    if "You review" in system:
        return "problem: parts of it are missing\nmethod: tiles, pipelining, threads\nplan: add the next missing part"
    if "You plan experiments" in system:
        names = re.findall(r"^## (\S+):", text, re.M)
        ways = random.Random(sampling.seed).sample(range(1000), 2)  # a change that was tried is no new experiment
        plans = [
            {**PLAN, "base": names[at % len(names)], "change": f"add a missing part, way {way}"} for at, way in enumerate(ways)
        ]
        return "\n".join(map(json.dumps, plans))
    if "You improve the instruction" in system:
        return "instruction: share the outer loop among cores and keep what is loaded close"
    draw, expert = random.Random(sampling.seed), _expert_for(text, "triton" if "triton" in system.lower() else "cpp")
    if '"tool": "judge"' in system:
        return _step(messages, expert, draw)
    return f"summary: parts.\n```python\n{_written(expert, _seen(text, expert), draw, 'Change this next' in text)}```"


def _step(messages: Sequence[Message], expert: ScriptedExpert, draw: random.Random) -> str:
    last = messages[-1].content
    if last.startswith("Result of write"):
        return '```json\n{"tool": "run", "path": "check.py"}\n```'
    if last.startswith("Result of run") and "close to the task" in last:
        return '```json\n{"tool": "judge"}\n```'
    seen = _seen("\n".join(message.content for message in messages), expert)
    if last.startswith("Result of judge") and seen is not None and len(seen) == expert.count:
        return '```json\n{"tool": "finish"}\n```'
    source = _written(expert, seen, draw, advised=False)
    return f'```json\n{{"tool": "write", "path": "kernel.py"}}\n```\n```python\n{source}```'


def _seen(text: str, expert: ScriptedExpert) -> set[int] | None:
    """Which parts the last kernel has that is shown and compiles; None where there is none."""
    sources = [code for code in _CODE.findall(text) if "class ModelNew" in code and "broken" not in code]
    own = next((code for code in reversed(sources) if _mark(0, True) in code or _mark(0, False) in code), None)
    return None if own is None else {number for number in range(expert.count) if _mark(number, True) in own}


def _mark(number: int, there: bool) -> str:
    return f"part {number} is {'in' if there else 'out'}"


def _written(expert: ScriptedExpert, seen: set[int] | None, draw: random.Random, advised: bool) -> str:
    chosen = {number for number in range(expert.count) if draw.random() > LEAVING} if seen is None else set(seen)
    missing = [number for number in range(expert.count) if number not in chosen]
    if seen is not None:
        chosen |= {number for number in missing if draw.random() < ADDING} | set(missing[:1] if advised else ())
    source = expert.with_parts(chosen)
    return source.replace(expert.sound, expert.broken, 1) if draw.random() < BREAKING else source


def _with_features(source: str, rules: Sequence[Rule], chosen: Set[int]) -> str:
    """Marks are in a value: comments may be left out where a kernel is shown."""
    for number, rule in enumerate(rules):
        for _ in range(MOST_PLACES if number not in chosen else 0):
            edit = next(rule.undo(source), None)
            if edit is None:
                break
            source = edit.source
    marks = "; ".join(_mark(number, number in chosen) for number in range(len(rules)))
    before = "\n\n\n@triton.jit" if "@triton.jit" in source else "\n\n\nclass ModelNew"
    return source.replace(before, f'\n\nPARTS = "{marks}"{before}', 1)


def _expert_for(text: str, language: str) -> ScriptedExpert:
    """The kernel of the task whose `forward` the prompt shows."""
    for expert in _experts(language):
        if expert.forward in text:
            return expert
    raise LookupError(f"this model knows only {', '.join(expert.name for expert in _experts(language))}")


@functools.cache
def _experts(language: str) -> tuple[ScriptedExpert, ...]:
    found = []
    for path in sorted((EXPERTS / language).glob("*.py")):
        forward = _FORWARD.search(load_task(f"builtin:{path.stem}", size="cpu").source)
        if forward is not None:
            found.append(_expert(path.stem, forward.group().strip(), path.read_text(encoding="utf-8"), language))
    return tuple(found)


def _expert(name: str, forward: str, source: str, language: str) -> ScriptedExpert:
    there = features_found(rules_of(language), source)
    rules = [rule for rule in rules_of(language) if rule.technique.name in there]
    features = functools.partial(_with_features, source, rules)
    sound, broken = (
        ("tl.program_id(0)", "tl.broken_id(0)") if language == "triton" else ('extern "C" void', 'broken extern "C" void')
    )
    return ScriptedExpert(name, forward, len(rules), features, sound, broken)
