"""The task inside the controller's process: how its model is built, the secret parameters that both runners get, and where its inputs come from."""

from __future__ import annotations

import gc
import io
import pickle
import secrets
from collections.abc import Callable

import torch

from bottega.core.arguments import read_arguments
from bottega.judge.inputs import InputSet, InputSource
from bottega.judge.invalid_task import InvalidTask, out_of_memory
from bottega.judge.loading import TASK_MODULE, import_source, set_precision, state_of
from bottega.judge.output_comparison import root_mean_square
from bottega.judge.tensor_transport import is_dense
from bottega.judge.tilt import tilt

NEGLIGIBLE = 3e-4
"""Draws of a parameter that differ by less are as good as known: a gate of 1e-6, a bias of 1e-6. Weights of a layer get so small only with ten
million inputs."""
FAINT, FELT = 0.1, 0.2
"""Root mean square of a bias below which it may be less than what bf16 is allowed to be off by, as that of a layer with ten thousand inputs is;
and what it gets then."""
RUNNING = ("running_mean", "running_var")
"""Statistics that a norm layer computes with in evaluation mode: constants as built, like unit gains and zero biases."""
LOOSENED = 0.2
"""By so much of its size, at most, an entry of a parameter is changed: the lengths of its rows are no longer a gain beside it, a copy of it no
longer equals it, an orthogonal one has another inverse. Signs and zeros stay."""
HEAD = 16
"""Elements by which a copy of a parameter is looked for."""


class Reference:
    def __init__(self, source: str, device: str, training: bool | None, precision: str = "fp32"):
        self.device = device
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
        self.seeded_state = state_of(self.build(self.seed))
        other = self.build(secrets.randbits(62))
        self.inputs = InputSource(module.get_inputs, device, other.forward)
        known = guessable(self.seeded_state, state_of(other), other)
        self.guessable = known | follows_from_others(other)
        """Parameters whose first values are no secret. A candidate that does not take ours could leave out what they make idle."""
        # What is loaded into a candidate must differ from what its own constructor draws, or a stale copy would pass.
        self.tilted = secrets.choice((True, False)) if precision == "fp32" else None
        """Whether numbers are such as a lower precision rounds all down, or all up; None where one is allowed."""
        self.random_state = randomised(other, known, coarse=precision in ("bf16", "fp16"), tilted=self.tilted)

    def build(self, seed: int | None = None) -> torch.nn.Module:
        """A fresh model on the host, as its class builds it, with arguments of its own. Never a copy: a closure that was made in `__init__`
        holds its own module, and would go on using the original in any copy."""
        torch.manual_seed(self.seed if seed is None else seed)
        try:
            initial = pickle.loads(self.initial_pickle)
            model = self.model_class(*initial.positional, **initial.keywords)
        except BaseException as error:
            raise InvalidTask(f"Model(*get_init_inputs()) raises {one_line(error)}") from error
        if not isinstance(model, torch.nn.Module):
            raise InvalidTask("Model is not a torch.nn.Module")
        if self.training is not None:
            model.train(self.training)
        return model

    def state(self, kind: str) -> dict[str, torch.Tensor]:
        return self.random_state if kind == "loaded" else self.seeded_state

    def state_bytes(self, kind: str) -> bytes:
        buffer = io.BytesIO()
        torch.save(self.state(kind), buffer)
        return buffer.getvalue()

    def draw(self, variant: str = "plain", take_in: Callable[[InputSet], None] | None = None) -> InputSet:
        try:
            return self.inputs.draw(variant, take_in)
        except torch.OutOfMemoryError:
            free = f" ({torch.cuda.mem_get_info()[0] / 1e9:.1f} GB are free)" if self.device != "cpu" else ""
            raise InvalidTask(
                f"the inputs do not fit the memory of the {self.device} device, which is out of memory{free}; use smaller shapes"
            ) from None
        except InvalidTask:
            raise
        except BaseException as error:
            if isinstance(error, MemoryError) or out_of_memory(str(error)):
                raise InvalidTask("the inputs need more memory than there is (out of memory); use smaller shapes") from None
            raise InvalidTask(f"get_inputs() raises {one_line(error)}") from error


def guessable(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor], model: torch.nn.Module) -> frozenset[str]:
    """Names of parameters and running statistics that have the same values whatever the seed, or nearly: zeros, ones, identities, tables, and
    what is drawn so small that a candidate could leave it out. And of buffers that are zeros or ones, as gains of a frozen norm layer are."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return frozenset(
        name
        for name, value in one.items()
        if (name in parameters or name.endswith(RUNNING) or _is_idle(value))
        and value.is_floating_point()
        and value.numel()
        and name in two
        and _nearly_equal(value, two[name])
    )


def follows_from_others(model: torch.nn.Module) -> frozenset[str]:
    """Names of parameters that tell nothing new as built: copies of others, and gains that are the lengths of another's rows (weight norm)."""
    own = {
        name: value.detach()
        for name, value in model.named_parameters()
        if value.is_floating_point() and value.layout is torch.strided and value.dtype.itemsize > 1 and value.numel() > 1
    }
    found: set[str] = set()
    heads: dict[tuple[object, ...], torch.Tensor] = {}
    for name, value in own.items():
        other = heads.setdefault((value.shape, value.dtype, *value.flatten()[:HEAD].tolist()), value)
        if other is not value and torch.equal(other, value):
            found.add(name)
    for rows in own.values():
        if rows.dim() > 1 and rows.numel() > rows.shape[0] > 1:
            gains = {name: gain for name, gain in own.items() if gain.numel() == rows.shape[0] and gain.dtype == rows.dtype}
            lengths = rows.flatten(1).norm(dim=1) if gains else rows
            found |= {name for name, gain in gains.items() if torch.allclose(gain.flatten(), lengths)}
    return frozenset(found)


def _is_idle(value: torch.Tensor) -> bool:
    """Zeros or ones, and more than one of them: a single number is mostly part of the definition."""
    if not value.is_floating_point() or value.layout is not torch.strided or value.numel() < 2 or value.dtype.itemsize == 1:
        return False
    return bool((value == 0).all()) or bool((value == 1).all())


def _nearly_equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one.shape != two.shape or torch.equal(one, two):
        return one.shape == two.shape
    if one.layout is not torch.strided:
        return False
    apart, size = (root_mean_square(each) for each in (one.double() - two.double(), one))
    return apart < NEGLIGIBLE * max(1.0, size)


def randomised(
    model: torch.nn.Module, known: frozenset[str], coarse: bool = False, tilted: bool | None = None
) -> dict[str, torch.Tensor]:
    """The model's state with what anybody knows of it made random, so that zero biases, unit gains and identities cannot be assumed; the rest a
    little different, so that nothing follows from it; and faint biases made larger in a lower precision, of the parameters or allowed (`coarse`), so
    that they cannot be left out. Names that share one tensor get one value."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    state: dict[str, torch.Tensor] = {}
    done: dict[tuple[int, ...], torch.Tensor] = {}
    for name, value in model.state_dict().items():
        strided = value.layout is torch.strided
        key = (value.data_ptr(), *value.shape, *value.stride()) if strided and value.numel() else (-1 - len(state),)
        if key in done:
            state[name] = done[key].clone()
            continue
        mine = value.detach().clone()
        if name in known and name not in parameters and not name.endswith(RUNNING):
            mine.add_(torch.rand(mine.shape), alpha=LOOSENED)  # never below zero: it may be under a root
        elif name in known:
            _randomise_values(name, mine)
        elif strided and name in parameters:
            _loosen(mine, tilted)
            if value.dtype.itemsize == 2 or (coarse and value.dtype.itemsize > 2):
                _make_felt(mine)
        state[name] = done[key] = mine
    return state


def _loosen(value: torch.Tensor, tilted: bool | None) -> None:
    """Break what ties the entries of a parameter to each other, or to other parameters. Not of symmetric matrices: they may have to be positive. And
    let what a lower precision loses of each not average out (`tilt`)."""
    if not (value.is_floating_point() or value.is_complex()) or value.dtype.itemsize == 1:
        return
    if value.dim() > 1 and value.shape[-1] == value.shape[-2] and torch.equal(value, value.mT):
        return
    value.mul_(torch.rand(value.shape).mul_(2 * LOOSENED).add_(1 - LOOSENED))
    if tilted is not None and is_dense(value.shape, value.stride()):
        tilt(value, tilted)


def _make_felt(value: torch.Tensor) -> None:
    """Biases, and what else is added to every entry of a batch: not the matrices, whose products would become larger than they ever are."""
    if not value.is_floating_point() or (value.dim() != 1 and (value.dim() < 3 or value.shape[0] != 1)):
        return
    size = root_mean_square(value)
    if 0 < size < FAINT:
        value.mul_(FELT / size)


def _randomise_values(name: str, value: torch.Tensor) -> None:
    if name.endswith("running_var"):
        value.copy_(torch.rand_like(value) + 0.5)
    elif name.endswith("running_mean"):
        value.copy_(0.3 * torch.randn_like(value))
    else:
        size = max(1.0, float(value.float().square().mean().sqrt()))
        value.add_(0.2 * size * torch.randn_like(value, dtype=torch.float32).to(value.dtype))


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
