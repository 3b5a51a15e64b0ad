"""The builder as a teacher: techniques are switched on one after the other, and each that changes the source is a step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from bottega.compiler.callgraph_names import cuts, sketch_lines, sketched, told
from bottega.compiler.cuda_graph import REPLAY, replayed
from bottega.compiler.kernel import Call
from bottega.compiler.layers.kept import KEPT, Layer, kept, layers_of
from bottega.compiler.layers.steps import layer_steps
from bottega.compiler.layers.techniques import CAPTURED, LAYERS
from bottega.compiler.library.index import FOR_KERNELS
from bottega.compiler.link import completed
from bottega.compiler.lowering.lower import KNOWN, Lowered, lower
from bottega.compiler.lowering.parts import PARTS
from bottega.compiler.module_frame import Frame, frame_of
from bottega.compiler.plan import Cuts, Plan
from bottega.compiler.planner import OWN_PRODUCT, OWN_TECHNIQUES, SHELVED, TECHNIQUES, make_plan
from bottega.compiler.product_rule import products_pay
from bottega.compiler.sharing import shared
from bottega.compiler.source.check import faults
from bottega.compiler.steps import FIRST_ATTEMPT, Course, Refusal, Step
from bottega.compiler.style import Style
from bottega.compiler.technique import Technique
from bottega.compiler.trace import Graph, Ref, trace
from bottega.core.candidate import Candidate, Language
from bottega.core.task import Task

VERSION = "1"
LANGUAGES: tuple[Language, ...] = ("cpp", "triton", "cuda")
GPU_LANGUAGES: tuple[Language, ...] = ("triton", "cuda")
LONGEST_UNROLLED = 9_000
"""Characters from which on a network is taught by its layers alone."""
Write = Callable[[Plan, Frame, frozenset[str], Style], str]


@dataclass(frozen=True)
class Writer:
    """One language: how a plan is written down in it, and which techniques are its own."""

    language: Language
    write: Write
    techniques: tuple[Technique, ...]
    """In the order in which a course takes them up."""


def writer_of(language: Language) -> Writer:
    if language not in LANGUAGES:
        raise Refusal(f"the builder writes {', '.join(LANGUAGES)}, not {language}")
    module: Any = import_module(f"bottega.compiler.{language}")
    return Writer(language, module.write, module.TECHNIQUES)


def techniques_of(language: Language) -> tuple[Technique, ...]:
    """Every technique of a course in this language, in the order in which it takes them up."""
    writer = writer_of(language)
    own = [technique for technique in TECHNIQUES if technique.name in OWN_TECHNIQUES]
    light = [technique for technique in TECHNIQUES if technique.name not in OWN_TECHNIQUES]
    network = (CAPTURED, *LAYERS, KEPT, SHELVED) if language == "triton" else ()
    found = (*light, *own, *writer.techniques, *network, *((REPLAY,) if language in GPU_LANGUAGES else ()))
    return tuple(replace(technique, cards=cards_of(technique, language)) for technique in found)


@dataclass(frozen=True)
class Understood:
    """A task that was traced and lowered: what every language and style starts from."""

    task: Task
    frame: Frame
    lowered: Lowered
    literal: bool = False
    layers: tuple[Layer, ...] = ()
    cuts: Cuts = ()

    def plan(self, techniques: frozenset[str]) -> Plan:
        return make_plan(self.lowered, techniques, self.literal, self.cuts)


def understand(task: Task, style: Style | None = None, language: Language = "triton") -> Understood:
    """In the plain style with the sketch's calls too, for a language that has parts on the shelf."""
    frame, style = frame_of(task), style or Style()
    graph = trace(task, KNOWN)
    if style.plain:
        graph = replace(graph, scalars={}, epsilons={})
    lines = sketch_lines(task.source) if style.plain else []
    named = _named(graph, style, frame, sketched(graph, lines))
    calls = told(lines) if style.plain and language == "triton" else None
    return Understood(task, frame, lower(named, task.label, calls), style.plain, layers_of(graph), cuts(lines))


RESERVED = (
    "torch",
    "nn",
    "F",
    "tl",
    "triton",
    "self",
    "max",
    "min",
    "abs",
    "sum",
    "range",
    "float",
    "int",
    "math",
    *PARTS,
    *FOR_KERNELS,
)
RESULTS = ("y", "out", "output", "result")
WORDS = {
    "conv": ("conv", "features"),
    "linear": ("hidden", "projected"),
    "matmul": ("product", "scores"),
    "mm": ("product", "scores"),
    "bmm": ("product", "scores"),
    "norm": ("normed", "normalised"),
    "pool": ("pooled",),
    "softmax": ("probs", "weights"),
    "attention": ("attended",),
    "embedding": ("embedded",),
    "relu": ("activated",),
    "gelu": ("activated",),
    "silu": ("activated",),
    "sigmoid": ("gate",),
    "sum": ("total",),
    "mean": ("mean",),
    "add": ("added",),
    "mul": ("scaled",),
    "view": ("flat",),
    "copy": ("copied",),
}
"""By a piece of an operator's name, what people call its result."""


def _named(graph: Graph, style: Style, frame: Frame, words: Mapping[str, str]) -> Graph:
    """Results under names that people give them, instead of the tracer's; `words` are names that are settled."""
    taken = set(frame.argument_names) | set(words.values()) | {*RESERVED, "cpp", "cuda"}
    names: dict[str, str] = {}
    last = graph.returned.name if isinstance(graph.returned, Ref) else ""
    for node in graph.nodes:
        if node.name in words:
            names[node.name] = words[node.name]
            continue
        piece = next((piece for piece in WORDS if piece in node.operator), "")
        word = style.pick(f"name of {piece}", WORDS[piece]) if piece else node.operator.strip("_")
        word = style.pick("result", RESULTS[::-1] if style.plain else RESULTS) if node.name == last else word
        number = 2
        fresh = word
        while fresh in taken:
            fresh, number = f"{word}{number}", number + 1
        taken.add(fresh)
        names[node.name] = fresh

    def new(value: Any) -> Any:
        if isinstance(value, Ref):
            return Ref(names.get(value.name, value.name))
        if isinstance(value, tuple | list):
            return type(value)(new(item) for item in value)
        return {key: new(item) for key, item in value.items()} if isinstance(value, dict) else value

    nodes = tuple(replace(node, name=names[node.name], arguments=new(node.arguments)) for node in graph.nodes)
    return replace(graph, nodes=nodes, returned=new(graph.returned))


class Builder:
    """`build` for one task as a whole; `teach` is the same for whoever awaits a teacher.

    `every_product` writes also those products in Triton that lose to the library's: for whoever checks or measures them.
    """

    def __init__(self, plain: bool = False, every_product: bool = False) -> None:
        self.plain, self.every_product = plain, every_product
        self.name = f"builder {VERSION}{' plain' if plain else ''}"

    async def teach(self, task: Task, language: Language, seed: int = 0) -> Course:
        return await asyncio.to_thread(self.build, task, language, frozenset(), seed)

    def build(self, task: Task, language: Language, without: Iterable[str] = (), seed: int = 0) -> Course:
        """The course for a task, never using the techniques in `without`. Raises `Refusal`."""
        style, writer, barred = Style(seed, self.plain), writer_of(language), frozenset(without)
        layered = layer_steps(task, style, barred) if language == "triton" else []
        try:
            own = any(step.technique != CAPTURED.name for step in layered)
            steps = self._unrolled(task, writer, style, barred, LONGEST_UNROLLED if own else None)
        except Refusal:
            if not layered:
                raise
            steps = ()
        return Course(task.id, language, self.name, (*steps, *layered))

    def _unrolled(
        self, task: Task, writer: Writer, style: Style, barred: frozenset[str], longest: int | None
    ) -> tuple[Step, ...]:
        """The steps that write every operator out; none where that makes files longer than somebody can be asked to write."""
        bench = Bench(understand(task, style, writer.language), writer, style, barred)
        fused = bench.take(None, [technique for technique in TECHNIQUES if technique.name not in OWN_TECHNIQUES])
        if longest and fused.step is not None and len(fused.step.candidate.source) > longest:
            return ()
        # Two ways on from here: keep the library's products and tune what is ours, or write the products too.
        tuned = bench.take(fused, writer.techniques)
        bench.take(tuned, bench.whole)
        if style.plain and writer.language == "triton":
            bench.take(tuned, (KEPT,))
            bench.take(tuned, (SHELVED,))
        own = bench.take(fused, bench.own(fused, self.every_product))
        if own is not fused:
            bench.take(bench.take(own, writer.techniques), bench.whole)
        if not bench.steps:
            raise Refusal(f"{task.label}: no kernel of ours is left to write in {writer.language}")
        own_text = [step for step in bench.steps if step.technique != SHELVED.name]  # of that most is the shelf's
        if longest and max((len(step.candidate.source) for step in own_text), default=0) > longest:
            return ()
        return tuple(bench.steps)


@dataclass(frozen=True)
class _Place:
    """A point of a course: the techniques that are on, and the last step that they gave."""

    on: frozenset[str] = frozenset()
    step: Step | None = None


@dataclass
class Bench:
    """A course as it is written: one task, one language, and the steps so far."""

    understood: Understood
    writer: Writer
    style: Style
    barred: frozenset[str]
    steps: list[Step] = field(default_factory=list)

    @property
    def whole(self) -> tuple[Technique, ...]:
        """What is done to the module as a whole, last."""
        return (REPLAY,) if self.writer.language in GPU_LANGUAGES else ()

    def own(self, place: _Place, every_product: bool) -> list[Technique]:
        """What writes the library's work ourselves; without products that would lose to it, where something else of ours is written."""
        found = [
            technique for technique in TECHNIQUES if technique.name in OWN_TECHNIQUES and technique.name not in self.barred
        ]
        if every_product or self.writer.language != "triton" or not self.steps:
            return found
        pays = products_pay(self.understood.plan(place.on | {technique.name for technique in found}))
        return [technique for technique in found if pays or technique.name != OWN_PRODUCT]

    def take(self, place: _Place | None, techniques: Iterable[Technique]) -> _Place:
        """Switch techniques on one after the other; each that changes the source becomes a step. Where that leads to."""
        if place is None:
            place = self._tried(_Place(), None) or _Place()
        for technique in techniques:
            if technique.name not in self.barred:
                place = self._tried(place, technique) or place
        return place

    def at_once(self, techniques: Iterable[Technique]) -> Step | None:
        """All of them switched on together, as one step under the last one's name."""
        chosen = [technique for technique in techniques if technique.name not in self.barred]
        on = frozenset(technique.name for technique in chosen)
        plan = self.understood.plan(on)
        source = self._write(plan, on)
        if source is None or not chosen:
            return None
        candidate = Candidate(source, self.writer.language, self.understood.task.name, None)
        last = chosen[-1]
        return Step(candidate, last.name, cards_of(last, self.writer.language), _summary(last, plan))

    def _tried(self, place: _Place, technique: Technique | None) -> _Place | None:
        on = place.on | ({technique.name} if technique else set())
        plan = self.understood.plan(on)
        source = self._write(plan, on)
        if source is None:
            return None
        if place.step is not None and source == place.step.candidate.source:
            return _Place(on, place.step)
        language, parent = self.writer.language, place.step.candidate.id if place.step else None
        known = next((step for step in self.steps if step.candidate.source == source), None)
        if known is not None:
            return _Place(on, known)
        name = technique.name if technique and place.step else FIRST_ATTEMPT
        cards = cards_of(technique, language) if technique else ()
        candidate = Candidate(source, language, self.understood.task.name, parent)
        step = Step(candidate, name, cards, _summary(technique, plan))
        self.steps.append(step)
        return _Place(on, step)

    def _write(self, plan: Plan, on: frozenset[str]) -> str | None:
        """None where this set of techniques gives something that the language's writer does not take."""
        if all(isinstance(kernel, Call) and not kernel.part for kernel in plan.kernels):
            return None
        frame: Frame | None = self.understood.frame
        if KEPT.name in on:
            frame = kept(self.understood.frame, self.understood.layers, self.style, self.understood.task)
        elif REPLAY.name in on:
            frame = replayed(self.understood.frame, plan, self.style)
        try:
            source = None if frame is None else shared(self.writer.write(plan, frame, on, self.style), self.writer.language)
        except Refusal:
            return None
        if source is None or SHELVED.name not in on:
            return source
        whole = completed(source, self.understood.task.source)
        # A call in the sketch's words reads the sketch's names, which a decomposed operator's results need not have.
        return None if faults(whole, self.understood.task.source, self.writer.language) else whole


def cards_of(technique: Technique, language: Language) -> tuple[str, ...]:
    """Cards for this language: those of another carry its name in front."""
    others = [f"{other}_" for other in ("triton", "cuda") if other != language]
    return tuple(card for card in technique.cards if not any(card.startswith(prefix) for prefix in others))


def _summary(technique: Technique | None, plan: Plan) -> str:
    own = [kernel for kernel in plan.kernels if not isinstance(kernel, Call)]
    origin = ", ".join(dict.fromkeys(name for kernel in own for name in kernel.origin))
    if technique is None:
        return f"One kernel for each operator: {origin}."
    return technique.summary.format(origin=origin)
