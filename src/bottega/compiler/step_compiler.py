"""The compiler: enables its passes one after the other for a task, and makes a build step of each that changes the source."""

from __future__ import annotations

import asyncio
import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bottega.compiler.backend import Backend
from bottega.compiler.build_step import FIRST_ATTEMPT, BuildStep, BuildSteps, Refusal
from bottega.compiler.callgraph_names import calls_by_result, cuts, recorded, result_names
from bottega.compiler.choices import BY_RULE, Tuning
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.constants import with_constants_made_once
from bottega.compiler.cuda_graph import REPLAY, with_graph_replay
from bottega.compiler.kernel import FunctionCall
from bottega.compiler.layers.passes import CAPTURED, LAYER_PASSES
from bottega.compiler.layers.steps import layer_steps, replaces_layers
from bottega.compiler.library.index import FOR_KERNELS
from bottega.compiler.link import linked
from bottega.compiler.lowering.library_functions import LIBRARY_OPERATORS
from bottega.compiler.lowering.lower import INLINE, KNOWN, Lowered, lower
from bottega.compiler.matmul_rule import products_pay
from bottega.compiler.model_class import with_model_class
from bottega.compiler.module_frame import Frame, frame_of
from bottega.compiler.plan import Cuts, KernelPlan
from bottega.compiler.planner import PLANNED, make_plan
from bottega.compiler.planner_passes import FOR_THREADS, LIBRARY_FUNCTIONS, OWN_PASSES, OWN_PRODUCT, OWN_RECURRENCE, PASSES
from bottega.compiler.sharing import with_shared_kernels
from bottega.compiler.source.check import check
from bottega.compiler.trace import trace
from bottega.compiler.traced_graph import Graph, Ref
from bottega.core.candidate import Candidate
from bottega.core.plugins import resolve
from bottega.core.task import Task
from bottega.languages import Language, every_language, language_named

VERSION = "2"
LONGEST_UNROLLED = 9_000
"""A network whose unrolled source has more characters than this is written with replaced layers only."""

MOST_STATEMENTS = 120
"""Of a module that is built pass by pass. A longer one, such as a loop over time that is written out, is written with all passes of
a branch at once: to write it anew for each of them takes minutes."""


@dataclass(frozen=True)
class Target:
    """A target language and its backend."""

    language: Language
    backend: Backend

    @property
    def passes(self) -> tuple[CompilerPass, ...]:
        return self.backend.passes


def target_languages() -> tuple[str, ...]:
    """Returns the names of the languages that have a backend."""
    return tuple(language.name for language in every_language() if language.compiler)


def target_of(language: str) -> Target:
    """Raises `Refusal` where the language has no backend."""
    known = language_named(language)
    if not known.compiler:
        raise Refusal(f"the compiler writes {', '.join(target_languages())}, not {language}")
    return Target(known, resolve(known.compiler))


def passes_of(language: str) -> tuple[CompilerPass, ...]:
    """Returns all passes for this language, in the order in which they are applied."""
    target = target_of(language)
    own = [pass_ for pass_ in PASSES if pass_.name in OWN_PASSES]
    light = [pass_ for pass_ in PASSES if pass_.name not in OWN_PASSES]
    network = (CAPTURED, *LAYER_PASSES, LIBRARY_FUNCTIONS) if target.language.kernel_library else ()
    found = (*light, *own, *target.passes, *network, *((REPLAY,) if target.language.on_gpu else ()))
    return tuple(replace(pass_, cards=cards_of(pass_, language)) for pass_ in found)


@dataclass(frozen=True)
class LoweredTask:
    """A task that was traced and lowered: the input of every backend."""

    task: Task
    frame: Frame
    lowered: Lowered
    cuts: Cuts = ()

    plans: dict[frozenset[str], KernelPlan] = field(default_factory=dict, compare=False, repr=False)

    def plan(self, passes: frozenset[str], tuning: Tuning = BY_RULE) -> KernelPlan:
        passes &= PLANNED
        if passes not in self.plans:
            self.plans[passes] = make_plan(self.lowered, passes, self.cuts)
        made = self.plans[passes]
        return replace(made, tuning=tuning, buffers=dict(made.buffers))


def lower_task(task: Task, with_library: bool = True) -> LoweredTask:
    """Traces and lowers a task. `with_library`: operators that the kernel library has are also lowered to calls of it.

    What is left to torch because of its options is taken apart, where torch knows how: what it consists of is ours more often than not.
    """
    whole = _lowered(task, KNOWN, with_library)
    if not whole.lowered.unwritten:
        return whole
    try:
        apart = _lowered(task, KNOWN - whole.lowered.unwritten, with_library)
    except Refusal:
        return whole
    return apart if _torchs(apart) < _torchs(whole) else whole


def _lowered(task: Task, known: frozenset[str], with_library: bool) -> LoweredTask:
    frame, graph = frame_of(task), trace(task, known)
    callgraph = recorded(task.source, graph.evaluated)
    named = with_constants_made_once(_named(graph, frame, result_names(graph, callgraph)), INLINE)
    frame = replace(frame, unpacked=named.unpacked, kept=named.kept)
    calls = calls_by_result(callgraph) if with_library else None
    return LoweredTask(task, frame, lower(named, task.label, calls), cuts(callgraph))


def _torchs(lowered: LoweredTask) -> int:
    """How many operators have no kernel of ours."""
    return sum(statement.kernel is None and not statement.pieces for statement in lowered.lowered.statements)


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
    *LIBRARY_OPERATORS,
    *FOR_KERNELS,
)
RESULT = "result"
WORDS = {
    "conv": "conv",
    "linear": "hidden",
    "matmul": "product",
    "mm": "product",
    "bmm": "product",
    "norm": "normed",
    "pool": "pooled",
    "softmax": "probs",
    "attention": "attended",
    "embedding": "embedded",
    "relu": "activated",
    "gelu": "activated",
    "silu": "activated",
    "sigmoid": "gate",
    "sum": "total",
    "mean": "mean",
    "add": "added",
    "mul": "scaled",
    "view": "flat",
    "copy": "copied",
}
"""Names of results that the call graph does not name, by a substring of the operator's name."""


def _named(graph: Graph, frame: Frame, words: Mapping[str, str]) -> Graph:
    """Renames the results of the graph: to the call graph's names (`words`) where it has one, to a usual word otherwise."""
    taken = set(frame.argument_names) | set(words.values()) | {*RESERVED, *target_languages()}
    names: dict[str, str] = {}
    last = graph.returned.name if isinstance(graph.returned, Ref) else ""
    for node in graph.nodes:
        if node.name in words:
            names[node.name] = words[node.name]
            continue
        piece = next((piece for piece in WORDS if piece in node.operator), "")
        word = RESULT if node.name == last else WORDS[piece] if piece else node.operator.strip("_")
        word = f"bitwise_{word}" if keyword.iskeyword(word) else word  # `and` and `or`
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
    return replace(graph, nodes=nodes, returned=new(graph.returned), changed=new(graph.changed))


class StepCompiler:
    """Compiles a task into build steps. `teach` is `build` in a thread, as the `Teacher` protocol wants it.

    `every_product` also writes the Triton products that are slower than the vendor library's, to test or measure them.
    """

    def __init__(self, every_product: bool = False) -> None:
        self.every_product = every_product
        self.name = f"compiler {VERSION}"

    async def teach(self, task: Task, language: str, seed: int = 0) -> BuildSteps:
        return await asyncio.to_thread(self.build, task, language, frozenset(), seed)

    def build(
        self, task: Task, language: str, without: Iterable[str] = (), seed: int = 0, lowered: LoweredTask | None = None
    ) -> BuildSteps:
        """Returns the steps for a task, without the passes named in `without`; the seed changes nothing. Raises `Refusal`.

        `lowered`: the task, where it is lowered already with the kernel library's calls. Tracing a recurrent layer walks all its steps.
        """
        target, excluded, task_id = target_of(language), frozenset(without), task.id
        task = with_model_class(task)
        layered = layer_steps(task, excluded) if target.language.kernel_library else []
        try:
            lowered = lowered or lower_task(task, target.language.kernel_library)
            steps = self._unrolled(lowered, target, excluded, LONGEST_UNROLLED if replaces_layers(layered) else None)
        except Refusal:
            if not layered:
                raise
            steps = ()
        return BuildSteps(task_id, language, self.name, (*steps, *layered))

    def _unrolled(
        self, lowered: LoweredTask, target: Target, excluded: frozenset[str], longest: int | None
    ) -> tuple[BuildStep, ...]:
        """The steps that write every operator out; none where a source gets longer than `longest`."""
        builder = StepBuilder(lowered, target, excluded)
        light = [pass_ for pass_ in PASSES if pass_.name not in OWN_PASSES]
        if len(builder.lowered.lowered.statements) > MOST_STATEMENTS:
            return self._long(builder, light, longest)
        fused = builder.take(None, light)
        if longest and fused.step is not None and len(fused.step.candidate.source) > longest:
            return ()
        # Two branches from here: keep the vendor library's products and tune the rest, or write the products too.
        tuned = builder.take(fused, target.passes)
        builder.take(tuned, builder.whole)
        if target.language.kernel_library:
            builder.take(tuned, (LIBRARY_FUNCTIONS,))
        own = builder.take(fused, builder.own(fused, self.every_product))
        if own is not fused:
            builder.take(builder.take(own, target.passes), builder.whole)
        if not builder.steps:
            raise nothing_left(builder.lowered, target.language.name)
        return tuple(builder.steps)

    def _long(self, builder: StepBuilder, light: list[CompilerPass], longest: int | None) -> tuple[BuildStep, ...]:
        """The ends of the branches alone, each with all its passes at once."""
        target = builder.target

        def add(passes: Iterable[CompilerPass], named: CompilerPass | None = None) -> None:
            step = builder.at_once(passes, named)
            if step is not None and all(step.candidate.source != other.candidate.source for other in builder.steps):
                builder.steps.append(step)

        tuned = [*light, *target.passes]
        add(tuned)
        if longest and builder.steps and len(builder.steps[0].candidate.source) > longest:
            return ()
        for pass_ in builder.whole:
            add([*tuned, pass_], pass_)
        if target.language.kernel_library:
            add([*tuned, LIBRARY_FUNCTIONS], LIBRARY_FUNCTIONS)
        add([*light, *builder.own(_Place(), self.every_product), *target.passes, *builder.whole])
        if not builder.steps:
            raise nothing_left(builder.lowered, target.language.name)
        return tuple(builder.steps)


def nothing_left(lowered: LoweredTask, language: str) -> Refusal:
    """For a task all of whose work stays with torch."""
    words = dict.fromkeys(word for kernel in lowered.plan(frozenset()).kernels for word in kernel.origin)
    torchs = f": torch computes {', '.join(words)}" if words else ""
    return Refusal(f"{lowered.task.label}: no kernel of ours is left to write in {language}{torchs}")


@dataclass(frozen=True)
class _Place:
    """A point in the sequence of passes: the enabled passes, and the last step that they gave."""

    on: frozenset[str] = frozenset()
    step: BuildStep | None = None


@dataclass
class StepBuilder:
    """Collects the steps of one task in one language."""

    lowered: LoweredTask
    target: Target
    excluded: frozenset[str]
    steps: list[BuildStep] = field(default_factory=list)

    @property
    def always(self) -> frozenset[str]:
        """What is on from the start; on a GPU our recurrence: a vendor library's is one kernel, beside which nothing of a module counts."""
        known = {pass_.name for pass_ in self.target.passes} - self.excluded
        return frozenset({OWN_RECURRENCE} & known if self.target.language.on_gpu else {FOR_THREADS})

    @property
    def whole(self) -> tuple[CompilerPass, ...]:
        """The passes over the whole module, which come last."""
        return (REPLAY,) if self.target.language.on_gpu else ()

    def own(self, place: _Place, every_product: bool) -> list[CompilerPass]:
        """The passes that replace vendor-library calls; without products that would be slower, where another kernel is left to write."""
        found = [pass_ for pass_ in PASSES if pass_.name in OWN_PASSES and pass_.name not in self.excluded]
        if every_product or not self.target.language.kernel_library or not self.steps:
            return found
        pays = products_pay(self.lowered.plan(place.on | {pass_.name for pass_ in found}))
        return [pass_ for pass_ in found if pays or pass_.name != OWN_PRODUCT]

    def take(self, place: _Place | None, passes: Iterable[CompilerPass]) -> _Place:
        """Enables passes one after the other; each that changes the source becomes a step. Returns the last point."""
        if place is None:
            place = self._try(_Place(), None) or _Place()
        for pass_ in passes:
            if pass_.name not in self.excluded:
                place = self._try(place, pass_) or place
        return place

    def at_once(self, passes: Iterable[CompilerPass], named: CompilerPass | None, tuning: Tuning = BY_RULE) -> BuildStep | None:
        """Enables all passes together: one step, named after one of them (most need not apply to this task) or a first attempt."""
        chosen = [pass_ for pass_ in passes if pass_.name not in self.excluded]
        on = self.always.union(pass_.name for pass_ in chosen)
        plan = self.lowered.plan(on, tuning)
        source = self._write(plan, on)
        if source is None:
            return None
        candidate = Candidate(source, self.target.language.name, self.lowered.task.name, None)
        cards = cards_of(named, self.target.language.name) if named else ()
        return BuildStep(candidate, named.name if named else FIRST_ATTEMPT, cards, _summary(named, plan))

    def _try(self, place: _Place, pass_: CompilerPass | None) -> _Place | None:
        on = self.always | place.on | ({pass_.name} if pass_ else set())
        plan = self.lowered.plan(on)
        source = self._write(plan, on)
        if source is None:
            return None
        if place.step is not None and source == place.step.candidate.source:
            return _Place(on, place.step)
        language, parent = self.target.language.name, place.step.candidate.id if place.step else None
        known = next((step for step in self.steps if step.candidate.source == source), None)
        if known is not None:
            return _Place(on, known)
        name = pass_.name if pass_ and (place.step or pass_ is LIBRARY_FUNCTIONS) else FIRST_ATTEMPT
        cards = cards_of(pass_, language) if pass_ else ()
        candidate = Candidate(source, language, self.lowered.task.name, parent)
        step = BuildStep(candidate, name, cards, _summary(pass_, plan))
        self.steps.append(step)
        return _Place(on, step)

    def _write(self, plan: KernelPlan, on: frozenset[str]) -> str | None:
        """Returns the source, or None where the backend cannot write what these passes give."""
        if all(isinstance(kernel, FunctionCall) and not kernel.library_call for kernel in plan.kernels):
            return None
        frame: Frame | None = self.lowered.frame
        if REPLAY.name in on:
            frame = with_graph_replay(self.lowered.frame, plan)
        try:
            source = (
                None
                if frame is None
                else with_shared_kernels(self.target.backend.write(plan, frame, on), self.target.language.name)
            )
        except Refusal:
            return None
        if source is None or LIBRARY_FUNCTIONS.name not in on:
            return source
        whole = linked(source, self.lowered.task.source)
        # A library call uses the call graph's names, which the results of a decomposed operator need not have.
        return None if check(whole) else whole


def cards_of(pass_: CompilerPass, language: str) -> tuple[str, ...]:
    """Returns the pass's cards for this language: the names of cards for another one start with that one's prefix."""
    others = tuple(other.card_prefix for other in every_language() if other.card_prefix and other.name != language)
    return tuple(card for card in pass_.cards if not card.startswith(others))


def _summary(pass_: CompilerPass | None, plan: KernelPlan) -> str:
    own = [kernel for kernel in plan.kernels if not isinstance(kernel, FunctionCall)]
    origin = ", ".join(dict.fromkeys(name for kernel in own for name in kernel.origin))
    if pass_ is None:
        return f"One kernel for each operator: {origin}."
    return pass_.summary.format(origin=origin)
