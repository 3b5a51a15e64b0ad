"""The truth: the task's own model in fp64 on the same inputs, whole or in pieces along the batch.

In pieces when the whole does not fit the memory that a verdict may take, after checking that the model treats batch entries
independently; failing that on the host, and failing that the reference's own output is the truth. The verdict says which it was. It is found
when the task is opened: a candidate that takes the device's memory does not get a weaker truth.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bottega.judge.dtypes import widest
from bottega.judge.inputs import InputSet
from bottega.judge.invalid_task import out_of_memory
from bottega.judge.reference import Reference, release
from bottega.judge.tensor_transport import flatten

HOST_ORACLE_BYTES = 4 << 30
"""Inputs larger than this are not worth an fp64 pass on the host."""
WHOLE_BYTES, PIECE_BYTES = 512 << 20, 128 << 20
"""What is never worth taking apart, and how small pieces get at first."""
INDEPENDENT = 1e-3, 1e-4
"""Relative and absolute: how alike an entry of the batch is answered alone and among the others."""


@dataclass
class OracleSlice:
    """A slice of the batch (or all of it) with the truth for it."""

    rows: slice
    outputs: list[torch.Tensor]
    inputs_after: list[torch.Tensor]


class Oracle:
    def __init__(self, reference: Reference):
        self.reference = reference
        self.device = reference.device
        self.kind = "fp64"
        """`fp64`, `fp64 on the host`, or `reference` where there is no other truth."""
        self.settled = ""
        """The kind that was found when the task was opened. Want of memory no longer changes it, as a candidate may be the cause; and inputs that
        the fp64 model has no answer to are held against the reference alone, and no others after them."""
        self.room: int | None = None
        """Bytes of the device above which an answer is given in pieces, if it can be; None for half of what is free."""
        self.workspace = 0
        """What the reference itself takes beside its inputs and outputs."""
        self.mutates = False
        self.rows: int | None = None
        """Batch entries at a time; None for all."""
        self.sliced: tuple[int, ...] = ()
        """Which inputs have the batch that is sliced."""
        self._model: torch.nn.Module | None = None
        self._where = ""

    def truth(self, inputs: InputSet, state: str, reference: list[torch.Tensor]) -> Iterator[OracleSlice]:
        """The right outputs for `inputs`, piece by piece; `reference` is what the baseline made of the same inputs."""
        self.kind = self.settled or self.kind
        if self.rows is None and self.kind == "fp64" and self._too_large(inputs, reference):
            parts = self._parts(inputs, reference)
            if parts > 1 and self._may_slice(inputs, state, reference):
                self.rows = max(1, inputs.tensors[self.sliced[0]].shape[0] // parts)
        done = 0  # batch entries that were answered: none is computed twice
        while self.kind != "reference":
            try:
                for piece in self._pieces(inputs, state, reference, done):
                    stop = piece.rows.stop or 0
                    yield piece
                    done = stop
                    del piece
                return
            except torch.OutOfMemoryError:
                self._shrink(inputs, state, reference)
            except (RuntimeError, TypeError, NotImplementedError, ValueError, AssertionError) as error:
                if self.settled and out_of_memory(str(error)):
                    raise torch.OutOfMemoryError(str(error)) from None
                self.kind = "reference"  # the model insists on its data type, or has no fp64 form
            self.forget()
        rest = slice(done, None) if done else slice(None)
        yield OracleSlice(rest, [each[rest] if done else each for each in reference], inputs.tensors)

    def forget(self) -> None:
        """Give back the fp64 model and its memory."""
        self._model = None
        release(self.device)

    def _pieces(self, inputs: InputSet, state: str, reference: list[torch.Tensor], done: int) -> Iterator[OracleSlice]:
        where = "cpu" if self.kind == "fp64 on the host" else self.device
        model = self._prepared(state, where)
        batch = inputs.tensors[self.sliced[0]].shape[0] if self.rows else 1
        whole = {i: _wide(t, where) for i, t in enumerate(inputs.tensors) if self.rows and i not in self.sliced}
        for start in range(done, batch, self.rows or 1):
            rows = slice(start, min(start + self.rows, batch)) if self.rows else slice(None)
            mine = [whole[i] if i in whole else _wide(t[rows] if self.rows else t, where) for i, t in enumerate(inputs.tensors)]
            with torch.no_grad():
                outputs = flatten(inputs.call(model, mine), torch.float64)[1]
            if any(output.dtype != widest(expected.dtype) for output, expected in zip(outputs, reference)):
                raise TypeError("the model computes in its own data type")
            after = [t.to(self.device) for t in mine] if self.mutates else []
            mine = []  # nothing of a piece is kept here while it is looked at, or while the next one is computed
            answer = OracleSlice(rows, [outputs.pop(0).detach().to(self.device) for _ in range(len(outputs))], after)
            del after
            yield answer
            del answer

    def _needed(self, inputs: InputSet, reference: list[torch.Tensor]) -> int:
        """Bytes of an fp64 pass over everything at once."""
        wide = sum(t.numel() * 8 if t.is_floating_point() else t.nbytes for t in [*inputs.tensors, *reference])
        return wide + 2 * self.workspace

    def _too_large(self, inputs: InputSet, reference: list[torch.Tensor]) -> bool:
        return self.device != "cpu" and self._needed(inputs, reference) > max(self._limit(), WHOLE_BYTES)

    def _limit(self) -> int:
        return torch.cuda.mem_get_info()[0] // 2 if self.room is None else self.room

    def _parts(self, inputs: InputSet, reference: list[torch.Tensor]) -> int:
        return max(2, -(-self._needed(inputs, reference) // max(self._limit() // 8, PIECE_BYTES)))

    def _prepared(self, state: str, where: str) -> torch.nn.Module:
        if self._model is None or self._where != where:
            self._model = self.reference.build().to(where)._apply(lambda tensor: tensor.to(widest(tensor.dtype)))
            self._where = where
        # Loaded anew for every use: a model may keep statistics, and each call starts from the same state.
        self._model.load_state_dict(self.reference.state(state), strict=True)
        return self._model

    def _shrink(self, inputs: InputSet, state: str, reference: list[torch.Tensor]) -> None:
        """The last attempt did not fit: try smaller pieces, then the host, then do without. Raises where the kind is settled."""
        self.forget()
        if self.kind == "fp64" and self.rows is None and self._may_slice(inputs, state, reference):
            self.rows = max(1, inputs.tensors[self.sliced[0]].shape[0] // 4)
            return
        if self.kind == "fp64" and self.rows is not None and self.rows > 1:
            self.rows = max(1, self.rows // 4)
            return
        if self.settled:
            raise torch.OutOfMemoryError("the truth was computed when the task was opened, and there is no memory for it now")
        size = sum(t.nbytes for t in inputs.tensors)
        small = self.device != "cpu" and self.kind == "fp64" and self.rows is None and size <= HOST_ORACLE_BYTES
        self.rows, self.sliced = None, ()
        self.kind = "fp64 on the host" if small else "reference"

    def _may_slice(self, inputs: InputSet, state: str, reference: list[torch.Tensor]) -> bool:
        """Whether the outputs have one batch, and the model answers one entry of it alone as it does among the others. Inputs without
        that batch (the second factor of a product) are given whole."""
        tensors = inputs.tensors
        if self.mutates or not tensors or not reference or any(not t.dim() for t in reference):
            return False
        batch = reference[0].shape[0]
        batched = tuple(i for i, t in enumerate(tensors) if t.dim() and t.shape[0] == batch)
        if batch < 2 or not batched or any(t.shape[0] != batch for t in reference):
            return False
        row = secrets.randbelow(batch)
        model = self.reference.build().to(self.device)
        model.load_state_dict(self.reference.state(state), strict=True)
        for chosen in dict.fromkeys((batched, *((i,) for i in batched))):
            mine = [t[row : row + 1].clone() if i in chosen else t for i, t in enumerate(tensors)]
            try:
                with torch.no_grad():
                    alone = flatten(inputs.call(model, mine), torch.float64)[1]
            except (RuntimeError, ValueError, IndexError):
                continue
            if all(_alike(got, want[row : row + 1]) for got, want in zip(alone, reference)):
                self.sliced = chosen
                return True
        return False


def _alike(got: torch.Tensor, want: torch.Tensor) -> bool:
    relative, absolute = INDEPENDENT
    wide = widest(want.dtype)  # narrow floats cannot be compared as they are
    return got.shape == want.shape and torch.allclose(got.to(wide), want.to(wide), rtol=relative, atol=absolute, equal_nan=True)


def _wide(tensor: torch.Tensor, where: str) -> torch.Tensor:
    """A copy of our own in fp64; what is no float stays what it is."""
    return tensor.to(where, widest(tensor.dtype), copy=True)
