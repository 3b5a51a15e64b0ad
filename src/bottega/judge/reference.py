"""The task inside the referee's process: its secret parameters, its input source, and the fp64 oracle.

The oracle answers in pieces along the batch when the whole does not fit the device, after checking that the model
treats batch entries independently; failing that it moves to the host, and failing that the reference's own output is
the truth. Which of them it was is said in the verdict.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
import secrets
from collections.abc import Iterator
from typing import cast

import torch

from bottega.judge.arguments import read_arguments
from bottega.judge.inputs import Drawn, InputSource
from bottega.judge.invalid import InvalidTask, out_of_memory
from bottega.judge.layout import flatten
from bottega.judge.loading import TASK_MODULE, import_source, set_precision, state_of
from bottega.judge.precision import widest

HOST_ORACLE_BYTES = 4 << 30
"""Inputs larger than this are not worth an fp64 pass on the host."""


class Piece:
    """A slice of the batch (or all of it) with the truth for it."""

    def __init__(self, rows: slice, outputs: list[torch.Tensor], inputs_after: list[torch.Tensor]):
        self.rows = rows
        self.outputs = outputs
        self.inputs_after = inputs_after


class Reference:
    def __init__(self, source: str, device: str, training: bool | None):
        self.device = device
        self.source = source
        self.training = training
        set_precision("fp32")
        try:
            module = import_source(source, TASK_MODULE)
            self.model_class = module.Model
            self.initial = read_arguments(module.get_init_inputs(), self.model_class)
        except BaseException as error:
            raise InvalidTask(f"the task cannot be imported: {one_line(error)}") from error
        try:
            self.initial_pickle = pickle.dumps(self.initial)
        except Exception as error:
            raise InvalidTask(f"get_init_inputs() returns what cannot be sent to another process: {one_line(error)}") from error
        self.seed = secrets.randbits(31)
        torch.manual_seed(self.seed)
        try:
            self.model = self.build()
        except BaseException as error:
            raise InvalidTask(f"Model(*get_init_inputs()) raises {one_line(error)}") from error
        if not isinstance(self.model, torch.nn.Module):
            raise InvalidTask("Model is not a torch.nn.Module")
        self.inputs = InputSource(module.get_inputs, device, self.model.forward)
        if training is not None:
            self.model.train(training)
        self.seeded_state = state_of(self.model)
        # What is loaded into a candidate must differ from what its own constructor draws, or a stale copy would pass.
        torch.manual_seed(secrets.randbits(62))
        self.random_state = randomised(self.build())
        self.oracle_kind = "fp64"
        self.rows: int | None = None
        """Batch entries the oracle takes at a time; None for all."""
        self._oracle: torch.nn.Module | None = None
        self._oracle_state: str | None = None

    def build(self) -> torch.nn.Module:
        """The model anew, with arguments of its own."""
        initial = pickle.loads(self.initial_pickle)
        return cast(torch.nn.Module, self.model_class(*initial.positional, **initial.keywords))

    def state(self, kind: str) -> dict[str, torch.Tensor]:
        return self.random_state if kind == "loaded" else self.seeded_state

    def state_bytes(self, kind: str) -> bytes:
        buffer = io.BytesIO()
        torch.save(self.state(kind), buffer)
        return buffer.getvalue()

    def draw(self, variant: str = "plain") -> Drawn:
        try:
            return self.inputs.draw(variant)
        except torch.OutOfMemoryError:
            free = f" ({torch.cuda.mem_get_info()[0] / 1e9:.1f} GB are free)" if self.device != "cpu" else ""
            raise InvalidTask(
                f"the inputs do not fit the memory of the {self.device} device{free}; use smaller shapes"
            ) from None
        except InvalidTask:
            raise
        except BaseException as error:
            if isinstance(error, MemoryError) or out_of_memory(str(error)):
                raise InvalidTask("the inputs need more memory than there is; use smaller shapes") from None
            raise InvalidTask(f"get_inputs() raises {one_line(error)}") from error

    def truth(self, drawn: Drawn, state: str, reference: list[torch.Tensor]) -> Iterator[Piece]:
        """The right outputs for `drawn`, piece by piece; `reference` is what the fp32 baseline made of the same inputs."""
        if self.rows is None and self._crowded(drawn, reference) and self._may_slice(drawn, state, reference):
            self.rows = max(1, drawn.tensors[0].shape[0] // 8)
        while self.oracle_kind != "reference":
            try:
                yield from self._pieces(drawn, state, reference)
                return
            except torch.OutOfMemoryError:
                self._shrink(drawn, state, reference)
            except (RuntimeError, TypeError, NotImplementedError, ValueError, AssertionError):
                self.oracle_kind = "reference"  # the model insists on its data type, or has no fp64 form
            self._oracle = None
            release(self.device)
        yield Piece(slice(None), reference, drawn.tensors)

    def _pieces(self, drawn: Drawn, state: str, reference: list[torch.Tensor]) -> Iterator[Piece]:
        where = "cpu" if self.oracle_kind == "fp64 on the host" else self.device
        model = self._prepared(state, where)
        batch = drawn.tensors[0].shape[0] if drawn.tensors and drawn.tensors[0].dim() else 0
        step = self.rows or batch or 1
        results: list[Piece] = []
        for start in range(0, batch, step) if self.rows else (0,):
            rows = slice(start, start + step) if self.rows else slice(None)
            mine = [t[rows] if self.rows else t for t in drawn.tensors]
            mine = [t.to(where, widest(t.dtype), copy=True) for t in mine]
            with torch.no_grad():
                result = drawn.call(model, mine)
            outputs = flatten(result, torch.float64)[1]
            for output, expected in zip(outputs, reference):
                if output.dtype != widest(expected.dtype):
                    raise TypeError("the model computes in its own data type")
            piece = Piece(rows, [o.detach().to(self.device) for o in outputs], [t.to(self.device) for t in mine])
            if self.rows:
                yield piece
            else:
                results.append(piece)
        yield from results

    def _crowded(self, drawn: Drawn, reference: list[torch.Tensor]) -> bool:
        """Whether an fp64 pass over everything at once would take more than a quarter of the device."""
        if self.device == "cpu":
            return False
        traffic = sum(t.nbytes for t in [*drawn.tensors, *reference])
        return 6 * traffic > torch.cuda.get_device_properties(0).total_memory // 4

    def _prepared(self, state: str, where: str) -> torch.nn.Module:
        if self._oracle is None:
            self._oracle = copy.deepcopy(self.model).to(where)._apply(lambda tensor: tensor.to(widest(tensor.dtype)))
            self._oracle_state = None
        # Loaded anew for every use: a model may keep statistics, and each call starts from the same state.
        self._oracle.load_state_dict(self.state(state), strict=True)
        return self._oracle

    def _shrink(self, drawn: Drawn, state: str, reference: list[torch.Tensor]) -> None:
        """The last attempt did not fit: try smaller pieces, then the host, then do without."""
        self._oracle = None
        release(self.device)
        step = self.rows or (drawn.tensors[0].shape[0] if drawn.tensors and drawn.tensors[0].dim() else 1)
        if self.oracle_kind == "fp64" and step > 1 and (self.rows or self._may_slice(drawn, state, reference)):
            self.rows = max(1, step // 4)
            return
        self.rows = None
        size = sum(t.nbytes for t in drawn.tensors)
        small = self.device != "cpu" and self.oracle_kind == "fp64" and size <= HOST_ORACLE_BYTES
        self.oracle_kind = "fp64 on the host" if small else "reference"

    def _may_slice(self, drawn: Drawn, state: str, reference: list[torch.Tensor]) -> bool:
        """Whether everything has one batch, and the model answers one entry of it alone as it does among the others."""
        batch = drawn.tensors[0].shape[0] if drawn.tensors and drawn.tensors[0].dim() else 0
        if batch < 2 or any(not t.dim() or t.shape[0] != batch for t in [*drawn.tensors, *reference]):
            return False
        row = secrets.randbelow(batch)
        model = copy.deepcopy(self.model).to(self.device)
        model.load_state_dict(self.state(state), strict=True)
        try:
            with torch.no_grad():
                alone = flatten(drawn.call(model, [t[row : row + 1].clone() for t in drawn.tensors]), torch.float64)[1]
        except (RuntimeError, ValueError):
            return False
        return all(
            got.shape == want[row : row + 1].shape and torch.allclose(got, want[row : row + 1], rtol=1e-3, atol=1e-4)
            for got, want in zip(alone, reference)
        )


def randomised(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The model's state with its constant parameters made random, so that zero biases and unit gains cannot be assumed."""
    state = state_of(model)
    parameters = dict(model.named_parameters())
    for name, value in state.items():
        if not value.is_floating_point() or value.numel() == 0:
            continue
        if name.endswith("running_var"):
            value.copy_(torch.rand_like(value) + 0.5)
        elif name.endswith("running_mean"):
            value.copy_(0.3 * torch.randn_like(value))
        elif name in parameters and bool((value == value.reshape(-1)[0]).all()):
            value.add_(0.2 * torch.randn_like(value) * max(1.0, float(value.reshape(-1)[0].abs())))
    return state


def one_line(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:300]
    except BaseException:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def release(device: str) -> None:
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
