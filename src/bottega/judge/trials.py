"""Correctness trials: the candidate and the reference on the same fresh inputs, both compared with the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from bottega.core.foreign_text import shown, words_of
from bottega.judge.call_options import CallOptions
from bottega.judge.call_record import CallRecord
from bottega.judge.faint_slices import FaintSlices
from bottega.judge.inputs import InputSet
from bottega.judge.invalid_task import InvalidTask, out_of_memory
from bottega.judge.oracle import Oracle
from bottega.judge.output_comparison import (
    OutputComparison,
    WrongElements,
    index_text,
    nonfinite_elements,
    pattern,
    root_mean_square,
)
from bottega.judge.runner import Runner
from bottega.judge.task_profile import TaskProfile
from bottega.judge.tensor_transport import (
    MAPPINGS,
    SEQUENCES,
    TensorSpec,
    dtype_name,
    is_dense,
    items_of,
    plain_values,
    same_shape,
)
from bottega.judge.ties import are_steps, are_ties
from bottega.judge.tolerance import tolerance
from bottega.judge.typical_error import TypicalError
from bottega.judge.worker_link import RunnerFailed

CHANCE = 4.0
"""Standard deviations by which a random mask may hide more elements than it did when the task was opened."""
UNSEEN = 1 / 64
"""Share of the outputs that may be infinite in the reference alone: nothing is known of them."""
DOMINATED = 2.0**12
ILL_CONDITIONED = 1e-3
"""A variant on which the reference itself errs by more than this says nothing about a candidate."""


REFERENCE_OUT_OF_MEMORY = {
    "stage": "forward",
    "type": "OutOfMemory",
    "text": "the candidate holds so much device memory that the reference, which ran before it came, no longer can",
}
OUTPUT_NOT_OWNED = "output_reused", "an output does not lie in memory of its own: "
OUTPUT_REUSED = ("output_reused", "what an earlier call had returned was changed by a later one")
ROUNDED_TRUTH = (2e-5, 0.2)
"""The error of the reference's own output where it has to serve as the oracle."""


@dataclass
class CorrectnessTrial:
    variant: str
    skipped: str = ""
    problem: str = ""
    """Empty, or in words what is wrong with the candidate's outputs."""
    restrided: bool = False
    """The candidate's output had another layout than the reference's."""
    precision_suspect: bool = False
    """Wrong everywhere by little: the mark of arithmetic in a lower precision."""
    violations: list[tuple[str, str]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    """One entry per output tensor."""

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__}


@dataclass(frozen=True, eq=False)
class OutputPair:
    """An output of the candidate and the reference's for the same inputs."""

    place: str
    got: torch.Tensor
    want: torch.Tensor
    typical: float = 0.0

    @cached_property
    def size(self) -> float:
        """Root mean square of what is wanted, 0 for integers. Read once: each number waits for a time slice of a shared GPU."""
        return root_mean_square(self.want) if self.want.is_floating_point() or self.want.is_complex() else 0.0

    def comparison(self, precision: str, rounding: tuple[float, float] | None = None) -> OutputComparison:
        scale = max(self.size, self.typical) if self.want.is_floating_point() or self.want.is_complex() else 0.0
        return OutputComparison(dtype_name(self.want.dtype), precision, scale, rounding=rounding)


def run_trial(
    draw: Callable[[str], InputSet],
    oracle: Oracle,
    eager: Runner,
    candidate: Runner,
    variant: str,
    options: CallOptions,
    *,
    profile: TaskProfile,
    extreme: bool = False,
    most: float = math.inf,
) -> CorrectnessTrial:
    """`extreme`: the variant has a weaker form, which is better where this one shows less. `most`: seconds that the reference may take."""
    trial = CorrectnessTrial(variant)
    try:
        with options.paused(most):
            inputs = draw(variant)
            expected = eager.run_call(inputs, options)
            if profile.large:
                eager.trim(options.deadline())
    except RunnerFailed as failure:
        if out_of_memory(str(failure.detail.get("text", ""))):
            raise RunnerFailed("failure", REFERENCE_OUT_OF_MEMORY) from None
        if failure.kind == "timeout" and most < math.inf:
            raise InvalidTask(
                f"the reference does not end within {most:.0f} s on {variant} inputs, which are not its own; have its loops end after some steps"
            ) from None
        if variant == "plain" or failure.kind != "failure":
            raise InvalidTask(f"the reference fails on its own inputs: {failure.detail.get('text') or failure.kind}") from None
        trial.skipped = "the reference raises on it"
        return trial
    before = candidate.retained is not None
    room_to_keep = not profile.large or oracle.rows is not None
    wanted = eager.output_views(expected.specs)
    got = candidate.run_call(inputs, options, keep=not before and room_to_keep and may_keep(profile), look=lambda: wanted)
    if profile.large and candidate.retained is None:
        candidate.trim(options.deadline())
    trial.restrided = got.restrided
    trial.violations = call_violations(candidate, got, inputs, options)
    outputs, problem = matched_outputs(candidate, got, expected, options.precision)
    if problem:
        trial.problem = problem
        return trial
    held = pair_outputs(outputs, wanted, options)
    mutated = sorted(options.mutates)
    mine, theirs = candidate.input_views(got), eager.input_views(expected)
    held += [OutputPair(f"input {i} (changed in place)", mine[i], theirs[i]) for i in mutated]
    with options.paused():
        dominated = extreme and variant != "concentrated" and _is_dominated(held, profile.sizes)
        _against_truth(trial, held, oracle, inputs, options, profile.nonfinite)
    if dominated and not trial.problem:
        trial.skipped = "a few elements are so large on it that the others are not seen"
    if before and may_overwrite(candidate, profile) and (why := candidate.overwrite(got, profile.aliased)):
        trial.violations.append((OUTPUT_NOT_OWNED[0], OUTPUT_NOT_OWNED[1] + why))
    if before and candidate.retained_was_altered(got.specs, options.strides, options.deadline()):
        trial.violations.append(OUTPUT_REUSED)
    if before and profile.large:
        candidate.trim(options.deadline())
    return trial


def add_trial(report: dict[str, Any], trial: CorrectnessTrial) -> bool:
    """Add a trial to the report about a candidate; True when it decides the verdict."""
    report["trials"].append(trial.to_json())
    report["violations"].extend(v for v in map(list, trial.violations) if v not in report["violations"])
    if not (trial.problem or trial.violations):
        return False
    report["problem"] = f"on {trial.variant} inputs: {trial.problem}" if trial.problem else ""
    report["precision_suspect"] = trial.precision_suspect
    return True


def may_overwrite(candidate: Runner, profile: TaskProfile) -> bool:
    """Whether the judge may write into a candidate's outputs, as a caller may: a buffer that is reused and only patched then becomes wrong."""
    return candidate.reads_memory and profile.writes_memory


def may_keep(profile: TaskProfile) -> bool:
    """Whether a candidate's outputs must stay unchanged: not where the reference itself changes its inputs, or its outputs later."""
    return not (profile.mutates or profile.reuses_outputs)


def roundings(errors: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """The reference's own error for each output, as a trial showed it."""
    return [(float(error.get("reference_relative") or 0.0), float(error.get("reference_worst") or 0.0)) for error in errors]


def pair_outputs(outputs: list[torch.Tensor], wanted: list[torch.Tensor], options: CallOptions) -> list[OutputPair]:
    """Pair up the outputs of the two runners."""
    alone = len(wanted) == 1
    typical = [*options.typical, *[0.0] * len(wanted)]
    return [
        OutputPair("the output" if alone else f"output {number}", got, want, typical[number])
        for number, (got, want) in enumerate(zip(outputs, wanted))
    ]


def call_violations(runner: Runner, record: CallRecord, inputs: InputSet, options: CallOptions) -> list[tuple[str, str]]:
    """Rules about a call that have nothing to do with the values it returned."""
    found: list[tuple[str, str]] = []
    if record.late_write:
        found.append(("late_write", "the output changed after the call had returned"))
    elif record.absent:
        found.append(("late_write", "the output was not there yet when the call was said to have returned"))
    touched = [i for i in runner.mutated(record, inputs) if i not in options.mutates]
    if touched:
        found.append(("input_mutated", f"the call changed input {touched[0]}, which the reference leaves alone"))
    if record.aliases - options.aliased and not options.mutates:
        found.append(
            ("output_aliases_input", "an output lies in the memory of an input; the reference returns memory of its own")
        )
    if record.overlaps and not options.reference_overlaps:
        found.append(("outputs_share_memory", "two outputs lie in the same memory; each of the reference's has its own"))
    return found


def matched_outputs(candidate: Runner, got: CallRecord, expected: CallRecord, precision: str) -> tuple[list[torch.Tensor], str]:
    """The candidate's outputs, when their structure, shapes and data types are the reference's; else what is different."""
    if not same_shape(got.skeleton, expected.skeleton):
        return (
            [],
            f"the structure of the outputs differs: expected {skeleton_text(expected.skeleton)}, got {skeleton_text(got.skeleton)}",
        )
    for wanted, value in zip(plain_values(expected.skeleton), plain_values(got.skeleton)):
        if not plain_equal(wanted, value):
            return [], f"a returned value differs: expected {shown(wanted)}, got {shown(value)}"
    if len(got.specs) != len(expected.specs):
        return [], f"expected {len(expected.specs)} tensors, got {len(got.specs)}"
    readable: list[TensorSpec] = []
    for number, (mine, theirs) in enumerate(zip(got.specs, expected.specs)):
        place = f"output {number}" if len(expected.specs) > 1 else "the output"
        if mine.shape != theirs.shape:
            return [], f"{place} has shape {list(mine.shape)}; the reference's has {list(theirs.shape)}"
        lower = precision in ("bf16", "fp16") and mine.dtype.startswith(("float", "bfloat"))
        if mine.dtype != theirs.dtype and not lower:
            return [], f"{place} has data type {mine.dtype}; the reference's has {theirs.dtype}"
        if not is_dense(mine.shape, mine.stride) or mine.stride != theirs.stride:
            return [], f"{place} was not handed over in the layout of the reference's"
        readable.append(mine)
    return candidate.output_views(readable), ""


def _against_truth(
    trial: CorrectnessTrial,
    held: list[OutputPair],
    oracle: Oracle,
    inputs: InputSet,
    options: CallOptions,
    usual: int,
) -> None:
    """Compare everything with the oracle, piece by piece, and write what was found into the trial. `usual`: how many elements of a right answer
    are not finite on plain inputs, such as those behind a mask; a variant that has no more of them can be used."""
    outputs = [each.want for each in held[: len(held) - len(options.mutates)]]
    comparisons: list[OutputComparison] = []
    seen = [Unseen(each.want) for each in held]
    samples: list[torch.Tensor] = []
    nonfinite: list[torch.Tensor] = []
    lost: list[torch.Tensor] = []
    for piece in oracle.truth(inputs, options.state, outputs):
        options.yield_to_timer()
        truths = [*piece.outputs, *(piece.inputs_after[i] for i in sorted(options.mutates))]
        if not comparisons:
            rounding = ROUNDED_TRUTH if oracle.kind == "reference" else None
            comparisons = [each.comparison(options.precision, rounding) for each in held]
            samples = truths
        for each, truth, comparison, unseen in zip(held, truths, comparisons, seen):
            got, want = rows_of(each.got, piece.rows), rows_of(each.want, piece.rows)
            comparison.feed_all(got, want, truth)
            unseen.feed_all(got, want, truth, piece.rows.start or 0)
        if trial.variant != "plain":
            nonfinite += [nonfinite_elements(truth, counted=usual > 0) for truth in truths]
            lost += [nonfinite_elements(rows_of(each.want, piece.rows), counted=True) for each in held]
        del piece, truths  # or else there would be two pieces while the next one is computed
    overflows = trial.variant != "plain" and _overflows(nonfinite, lost, usual, sum(each.want.numel() for each in held))
    if trial.variant != "plain" and (overflows or any(map(ill_conditioned, comparisons))):
        trial.skipped = "the reference is not accurate on it"
        return
    for place, (each, comparison, sample, unseen) in enumerate(zip(held, comparisons, samples, seen)):
        trial.errors.append(comparison.to_json())
        if trial.problem:
            continue
        if comparison.problem and not no_more_wrong(comparison, held, place, oracle, inputs, options):
            trial.problem, trial.precision_suspect = _explain(each, comparison, sample)
        elif why := unseen.problem(comparison):
            trial.problem, trial.precision_suspect = f"of {each.place} {why}", "lower precision" in why


def no_more_wrong(
    comparison: OutputComparison,
    held: list[OutputPair],
    place: int,
    oracle: Oracle,
    inputs: InputSet,
    options: CallOptions,
    usual: float = 0.0,
) -> bool:
    """Whether an output that is beyond its limits has hardly more wrong elements than the reference's. Asked only where the reference's own error
    is beyond what its data type has, on these inputs or in its trial (`usual`). Of integers, and of a few numbers that are far off, whether they are
    ties."""
    outputs, each = [each.want for each in held[: len(held) - len(options.mutates)]], held[place]
    if comparison.exact and place < len(outputs):
        return are_ties(each.got, each.want, place, oracle, inputs, options.state, outputs)
    if comparison.problem == "values" and place < len(outputs):
        rest = each.comparison(options.precision)
        if are_steps(each.got, each.want, rest, place, oracle, inputs, options.state, outputs):
            return True
    least = tolerance(comparison.dtype, options.precision)
    well_conditioned = max(usual, comparison.reference_error) <= least.overall
    if comparison.exact or oracle.kind == "reference" or place >= len(outputs) or well_conditioned:
        return False
    wrong = WrongElements(least.element)
    for piece in oracle.truth(inputs, options.state, outputs):
        wrong.feed_all(rows_of(each.got, piece.rows), rows_of(each.want, piece.rows), piece.outputs[place])
    return wrong.alike


def _overflows(truths: list[torch.Tensor], references: list[torch.Tensor], usual: int, elements: int) -> bool:
    """Whether more elements than usual are not finite in the truth, or many in the reference alone."""
    if not truths:
        return False
    strange, lost = torch.stack([torch.stack(truths).sum(), torch.stack(references).sum()]).tolist()
    return bool(strange > usual + CHANCE * math.sqrt(usual) or lost > strange + elements * UNSEEN)


class Unseen:
    """What a comparison of the whole output does not show. Of complex numbers both parts are looked at, as another axis."""

    def __init__(self, want: torch.Tensor):
        self.slices, self.typical = FaintSlices(parts_of(want).shape), TypicalError()

    def feed_all(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor, first: int) -> None:
        got, reference, truth = map(parts_of, (got, reference, truth))
        self.slices.feed_all(got, reference, truth, first)
        self.typical.feed_all(got, reference, truth)

    def problem(self, comparison: OutputComparison) -> str:
        if comparison.exact or comparison.rounding is not None:
            return ""
        scale, limit = comparison.scale, comparison.limit
        return self.slices.problem(scale, limit) or self.typical.problem(scale, limit)


def parts_of(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def rows_of(tensor: torch.Tensor, rows: slice) -> torch.Tensor:
    return tensor[rows] if tensor.dim() else tensor


def _is_dominated(held: list[OutputPair], usual: tuple[float, ...]) -> bool:
    """Whether some output is so much larger than on plain inputs that errors of its ordinary elements pass."""
    return any(size and each.want.is_floating_point() and each.size > DOMINATED * size for each, size in zip(held, usual))


def ill_conditioned(comparison: OutputComparison) -> bool:
    """Whether the reference itself errs by too much."""
    return comparison.reference_error > max(ILL_CONDITIONED, 2 * comparison.limit.overall)


def _explain(held: OutputPair, comparison: OutputComparison, truth: torch.Tensor) -> tuple[str, bool]:
    """What is wrong, in words, and whether it looks like arithmetic in a lower precision."""
    expected, received = comparison.worst_pair
    got = held.got
    at = index_text(comparison.worst_at, tuple(got.shape)) if comparison.worst_at >= 0 else "[]"
    part = got[: truth.shape[0]] if got.dim() and truth.shape != got.shape else got
    how = pattern(part, truth)
    told = f"{held.place} is wrong: at {at} expected {expected:.8g}, got {received:.8g}; {how}"
    if comparison.exact:
        return told, False
    allowed = max(comparison.limit.overall, comparison.limit.slack * comparison.reference_error)
    told += (
        f"; relative error {comparison.got_error:.2g}, the reference's own is {comparison.reference_error:.2g}, "
        f"at most {allowed:.2g} is allowed"
    )
    return told, comparison.problem == "values" and comparison.got_error < 2e-2 and "lower precision" in how


def plain_equal(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def skeleton_text(skeleton: Any, depth: int = 0) -> str:
    """A skeleton as readable text of bounded length."""
    if depth > 4:
        return "…"
    try:
        ((kind, content),) = skeleton.items()
        if kind == "tensor":
            return "tensor"
        if kind == "number":
            return "float"
        if kind in SEQUENCES:
            items = items_of(kind, content[:6]) or ()
            told = ", ".join(skeleton_text(item, depth + 1) for item in items) + (
                f", … {len(content)} in all" if len(content) > 6 else ""
            )
            return f"{'list' if kind == 'list' else 'tuple'}({told})"
        if kind in MAPPINGS:
            return "{" + ", ".join(f"{words_of(key, 40)}: {skeleton_text(item, depth + 1)}" for key, item in content[:6]) + "}"
        return shown(content, 40)
    except (AttributeError, ValueError, TypeError):
        return "something malformed"
