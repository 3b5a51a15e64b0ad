"""Are the outputs of timed calls right? They are held against a baseline's on the same inputs; where the two differ, the oracle decides."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import torch

from bottega.judge.call_options import CallOptions
from bottega.judge.call_record import CallRecord
from bottega.judge.inputs import InputSet
from bottega.judge.oracle import Oracle
from bottega.judge.output_comparison import index_text
from bottega.judge.runner import Runner
from bottega.judge.secret import secret_indices
from bottega.judge.tensor_transport import flat
from bottega.judge.trials import (
    ROUNDED_TRUTH,
    OutputPair,
    Unseen,
    ill_conditioned,
    matched_outputs,
    no_more_wrong,
    pair_outputs,
    rows_of,
)
from bottega.judge.variants import PARTS

SAMPLED_ABOVE = {"cpu": 1 << 16, "cuda": 1 << 24}
QUICKLY_SAMPLED = 1 << 20
"""Timed outputs with more elements than this are compared at as many random places instead of everywhere; of a quick verdict at fewer."""
GLANCED_AT = 1 << 16
"""Elements of each output, in whole slices as far as they go, that are looked at in every call for what is seen in trials only."""
ALARMS, THEN_ONE_IN = 4, 8
"""So many glances that showed something are followed up, and then one in so many: of some tasks the baseline itself rounds no better."""


@dataclass
class TimedOutputs:
    oracle: Oracle
    baseline: Runner
    candidate: Runner
    options: CallOptions
    quick: bool
    alarms: int = 0

    def problem(
        self, mine: CallRecord, theirs: CallRecord, inputs: InputSet, rounding: list[tuple[float, float]], whole: bool = False
    ) -> str:
        """In words, what is wrong with the candidate's outputs; empty where nothing is. `rounding`: what the reference itself is off by on this
        variant. `whole`: hold them against the truth too."""
        outputs, problem = matched_outputs(self.candidate, mine, theirs, self.options.precision)
        if problem:
            return problem
        held = pair_outputs(outputs, self.baseline.output_views(theirs.specs), self.options)
        mutated = sorted(self.options.mutates)
        changed = [(self.candidate.input_views(mine)[i], self.baseline.input_views(theirs)[i]) for i in mutated]
        held += [OutputPair("an input that is changed in place", got, want) for got, want in changed]
        for each, off in zip(held, rounding):
            if told := self._difference(each, held, inputs, off):
                return told
        if whole or self._must_follow_up(held[: len(outputs)], rounding):
            return self._unseen_problem(held[: len(outputs)], inputs)
        return ""

    def _difference(self, each: OutputPair, held: list[OutputPair], inputs: InputSet, off: tuple[float, float]) -> str:
        looked_at = _sampled(each, most_sampled(self.candidate.device, self.quick))
        comparison = looked_at.comparison(self.options.precision, off)
        comparison.feed(looked_at.got, looked_at.want, looked_at.want)
        comparison.settle()
        if not comparison.unequal and not comparison.problem:
            return ""
        few = 0 < comparison.unequal <= max(4, comparison.elements // 1000)  # a tie that rounding may break either way
        if not (comparison.exact and not few) and not self._wrong_by_the_oracle(each, held, inputs, off[0]):
            return ""
        expected, received = comparison.worst_pair
        known_place = looked_at.got.numel() == each.want.numel() and each.want.is_contiguous()
        at = index_text(comparison.worst_at, tuple(each.want.shape)) if known_place else "a sampled place"
        return f"{each.place} is wrong at {at}: expected {expected:.8g}, got {received:.8g}"

    def _wrong_by_the_oracle(self, each: OutputPair, held: list[OutputPair], inputs: InputSet, usual: float) -> bool:
        """Where an output differs from the baseline's, the oracle decides which is wrong: of some inputs a baseline gets more wrong than of those
        of its trial. `usual`: what it was off by there."""
        options, place = self.options, held.index(each)
        outputs = [other.want for other in held[: len(held) - len(options.mutates)]]
        if place >= len(outputs):
            return True
        comparison = each.comparison(options.precision)
        try:
            for piece in self.oracle.truth(inputs, options.state, outputs):
                comparison.feed_all(rows_of(each.got, piece.rows), rows_of(each.want, piece.rows), piece.outputs[place])
            if inputs.variant in PARTS and ill_conditioned(comparison):
                return False  # which its trial would have shown
            return bool(comparison.problem) and not no_more_wrong(comparison, held, place, self.oracle, inputs, options, usual)
        except torch.OutOfMemoryError:
            return True

    def _must_follow_up(self, held: list[OutputPair], rounding: list[tuple[float, float]]) -> bool:
        """Whether a glance at every output, with the baseline's for the truth, shows what is to be held against the truth itself: else it could be
        left out of all timed calls but one."""
        if self.oracle.kind == "reference" or not any(map(self._shows, held, rounding)):
            return False
        self.alarms += 1
        return self.alarms <= ALARMS or secrets.randbelow(THEN_ONE_IN) == 0

    def _shows(self, each: OutputPair, off: tuple[float, float]) -> bool:
        got, want = _thinned(each.got, each.want)
        comparison = OutputPair(each.place, got, want, each.typical).comparison(self.options.precision)
        if comparison.exact or off[0] > comparison.limit.overall:
            return False
        unseen = Unseen(want)
        unseen.feed_all(got, want, want, 0)
        return bool(unseen.problem(comparison))

    def _unseen_problem(self, held: list[OutputPair], inputs: InputSet) -> str:
        """What is else seen in trials only: otherwise it could be left out once they are over."""
        seen = [Unseen(each.want) for each in held]
        try:
            for piece in self.oracle.truth(inputs, self.options.state, [each.want for each in held]):
                for each, truth, unseen in zip(held, piece.outputs, seen):
                    got, want = rows_of(each.got, piece.rows), rows_of(each.want, piece.rows)
                    unseen.feed_all(got, want, truth, piece.rows.start or 0)
        except torch.OutOfMemoryError:
            return ""
        rounding = ROUNDED_TRUTH if self.oracle.kind == "reference" else None
        problems = (unseen.problem(each.comparison(self.options.precision, rounding)) for each, unseen in zip(held, seen))
        return next((f"of {each.place} {why}" for each, why in zip(held, problems) if why), "")


def most_sampled(device: str, quick: bool) -> int:
    return min(SAMPLED_ABOVE[device], QUICKLY_SAMPLED if quick else 1 << 62)


def _sampled(held: OutputPair, most: int) -> OutputPair:
    """The pair as flat tensors: all of it, or as many random places as can be looked at between two timed calls."""
    got, want = flat(held.got), flat(held.want)  # both are laid out alike
    if got.numel() > most:
        chosen = secret_indices(got.numel(), most, got.device)
        got, want = got[chosen], want[chosen]
    return OutputPair(held.place, got, want, held.typical)


def _thinned(got: torch.Tensor, want: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the longest axes, as few entries as leave no more elements than are looked at: other ones each time."""
    while want.numel() > GLANCED_AT:
        axis = max(range(want.dim()), key=lambda each: want.shape[each])
        most = max(1, want.shape[axis] * GLANCED_AT // want.numel())
        chosen = secret_indices(want.shape[axis], most, want.device)
        got, want = got.index_select(axis, chosen), want.index_select(axis, chosen)
    return got, want
