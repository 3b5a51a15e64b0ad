"""Fitness of a task: which shortcuts a candidate could take on it, found by running the reference on changed inputs."""

from __future__ import annotations

import time
from typing import Any

import torch

from bottega.judge.inputs import InputSet, same_bytes
from bottega.judge.output_comparison import root_mean_square
from bottega.judge.reference import Reference
from bottega.judge.secret import secret_indices
from bottega.judge.tensor_transport import flatten, unflatten

CONSTANT = 1e-5
AVERAGED = 2e-2
"""Outputs that differ by less than this between independent inputs mostly show the law of large numbers."""
NEAR_ZERO = 1e-4
LAUNCH_BOUND_MS = {"cpu": 0.1, "cuda": 0.05}
REPEATED_MS = 0.05
"""On a CPU the first call after a while finds caches that others have filled, and on a busy machine every call is such a call. One call
right after the other, the quickest of many, shows what is left when nothing gets in the way."""
REPEATED_CALLS, REPEATED_SECONDS = 64, 0.2
WORTH_REPEATING_MS = 100.0
"""No call of a launch-bound task takes longer, however busy the machine."""
SLOW_MS = 5000.0
PARAMETERS_LOOKED_AT = 64
LOOKED_AT = 1 << 22
"""Elements of an output that are kept of each run."""


def inspect_task(reference: Reference, facts: dict[str, Any]) -> dict[str, Any]:
    """Problems by name, each with what was seen. An empty list means that nothing speaks against the task."""
    examiner = FitnessProbe(reference, bool(facts["mutates_inputs"]))
    problems: list[dict[str, str]] = []
    for look in (examiner.constant, examiner.identity, examiner.ignored_inputs, examiner.ignored_parameters):
        problems += [{"name": name, "detail": detail} for name, detail in look()]
    problems += [{"name": name, "detail": detail} for name, detail in _size(examiner, facts)]
    return {"fit": not problems, "problems": problems, "facts": facts}


class FitnessProbe:
    """Runs the reference on inputs that are changed one at a time. Of large outputs random places are kept: two whole ones would not fit."""

    def __init__(self, reference: Reference, changes_inputs: bool):
        self.reference = reference
        self.changes_inputs = changes_inputs
        self.model = reference.build().to(reference.device)
        self.model.load_state_dict(reference.random_state)
        self.first, self.second = reference.draw(), reference.draw()
        self.places: list[torch.Tensor | None] | None = None
        self.answer = self.run(self.first)
        self.other = self.run(self.second)

    def run(self, drawn: InputSet) -> list[torch.Tensor]:
        with torch.no_grad():
            inputs = [tensor.clone() for tensor in drawn.tensors] if self.changes_inputs else drawn.tensors
            outputs = flatten(drawn.call(self.model, inputs))[1]
        if self.places is None:
            self.places = [secret_indices(o.numel(), LOOKED_AT, o.device) if o.numel() > LOOKED_AT else None for o in outputs]
        return [
            output.detach().clone() if chosen is None or chosen.max() >= output.numel() else output.detach().reshape(-1)[chosen]
            for output, chosen in zip(outputs, self.places)
        ]

    def repeated_ms(self) -> float:
        """The quickest of many calls on a CPU, one right after the other."""
        tensors = self.first.tensors
        quickest, enough = float("inf"), time.perf_counter() + REPEATED_SECONDS
        with torch.no_grad():
            for _ in range(REPEATED_CALLS):
                if self.changes_inputs:
                    tensors = [tensor.clone() for tensor in self.first.tensors]
                arguments, keywords = unflatten(self.first.skeleton, tensors)
                begun = time.perf_counter()
                self.model(*arguments, **keywords)
                ended = time.perf_counter()
                quickest = min(quickest, 1e3 * (ended - begun))
                if ended > enough:
                    break
        return quickest

    def constant(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for number, (one, two) in enumerate(zip(self.answer, self.other)):
            if one.shape != two.shape:
                continue
            change = distance(one, two)
            if change < CONSTANT:
                found.append(
                    ("constant_output", f"output {number} is the same for independent inputs (relative change {change:.1e})")
                )
            elif change < AVERAGED:
                found.append(
                    (
                        "averaged_output",
                        f"output {number} changes by only {change:.1e} between independent inputs: a part of the work would do",
                    )
                )
            scale = root_mean_square(one) if one.is_floating_point() else 1.0
            if 0 < scale < NEAR_ZERO:
                found.append(
                    ("near_zero_output", f"output {number} has a root mean square of {scale:.1e}: zeros pass loose tolerances")
                )
        return found

    def identity(self) -> list[tuple[str, str]]:
        for number, (output, chosen) in enumerate(zip(self.answer, self.places or [])):
            for position, tensor in enumerate(self.first.tensors):
                whole = tensor if chosen is None else tensor.reshape(-1)
                if chosen is not None and whole.numel() > int(chosen.max()):
                    whole = whole[chosen]
                if output.shape == whole.shape and output.dtype == whole.dtype and distance(output, whole) < CONSTANT:
                    return [("identity", f"output {number} equals input {position} on the inputs that get_inputs draws")]
        return []

    def ignored_inputs(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for position in range(len(self.first.tensors)):
            tensors = list(self.first.tensors)
            if tensors[position].shape != self.second.tensors[position].shape or same_bytes(
                tensors[position], self.second.tensors[position]
            ):
                continue
            tensors[position] = self.second.tensors[position]
            if not self._moves(InputSet(self.first.skeleton, tensors, "plain")):
                found.append(("ignores_input", f"no output depends on input {position}"))
        return found

    def ignored_parameters(self) -> list[tuple[str, str]]:
        ignored: list[str] = []
        for name, parameter in list(self.model.named_parameters())[:PARAMETERS_LOOKED_AT]:
            if not parameter.is_floating_point() or parameter.numel() == 0:
                continue
            before = parameter.detach().clone()
            with torch.no_grad():
                parameter.add_(torch.randn_like(parameter) * max(0.5 * root_mean_square(before), 0.05))
            if not self._moves(self.first):
                ignored.append(name)
            with torch.no_grad():
                parameter.copy_(before)
        return [("ignores_parameter", f"no output depends on {', '.join(ignored[:6])}")] if ignored else []

    def _moves(self, drawn: InputSet) -> bool:
        try:
            outputs = self.run(drawn)
        except (RuntimeError, ValueError, IndexError):
            return True  # inputs that belong together were torn apart: they matter
        return any(a.shape != b.shape or distance(a, b) > 1e-6 for a, b in zip(self.answer, outputs))


def distance(one: torch.Tensor, two: torch.Tensor) -> float:
    """Relative root mean square difference; for integers and booleans the share of elements that differ."""
    if not (one.is_floating_point() or one.is_complex()):
        return float((one != two).double().mean()) if one.numel() else 0.0
    if one.dtype.itemsize == 1:  # torch does not reckon in eight bits
        one, two = one.float(), two.float()
    scale = max(root_mean_square(one), root_mean_square(two))
    return root_mean_square(one - two) / scale if scale else 0.0


def _size(examiner: FitnessProbe, facts: dict[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    device, milliseconds = examiner.reference.device, facts["reference_ms"]
    quickest, least = facts["quickest_ms"], LAUNCH_BOUND_MS["cpu" if device == "cpu" else "cuda"]
    launch_bound = quickest < least
    if device == "cpu" and least <= quickest < WORTH_REPEATING_MS:
        quickest = examiner.repeated_ms()
        launch_bound = quickest < REPEATED_MS
    if launch_bound:
        found.append(("launch_bound", f"one call takes {quickest:.4f} ms: launching dominates what is computed"))
    if milliseconds > SLOW_MS:
        found.append(("too_slow", f"one call takes {milliseconds / 1e3:.1f} s: too few calls can be timed"))
    return found
