"""Runs a plan with torch, kernel by kernel, as its nouns define it: what a plan means, apart from how a language writes it."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from bottega.compiler.expression import Apply, Cast, Constant, Expression, Gather, Index, Load, Name
from bottega.compiler.kernel import (
    Attention,
    Convolution,
    FunctionCall,
    Kernel,
    Map,
    Pool,
    Product,
    PythonText,
    RowProgram,
    Scan,
)
from bottega.compiler.plan import KernelPlan
from bottega.compiler.view import View

FUNCTIONS: dict[str, Any] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.true_divide, "pow": torch.pow, "fmod": torch.fmod,
    "remainder": torch.remainder, "floor_divide": torch.floor_divide, "atan2": torch.atan2, "maximum": torch.maximum,
    "minimum": torch.minimum, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne,
    "and": torch.logical_and, "or": torch.logical_or, "not": torch.logical_not, "where": torch.where,
}  # fmt: skip


class Interpreter:
    def __init__(self, plan: KernelPlan, model: torch.nn.Module, inputs: list[Any]):
        self.plan, self.model = plan, model
        self.memory: dict[str, torch.Tensor] = {}
        for name, buffer in plan.buffers.items():
            if buffer.kind == "parameter":
                self.memory[name] = eval(name, {"self": model}).detach()
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        self.memory.update(zip(plan.inputs, tensors))

    def run(self) -> Any:
        for kernel in self.plan.kernels:
            self.kernel(kernel)
        return eval(self.plan.returns, {"self": self.model, **{n: t for n, t in self.memory.items() if n.isidentifier()}})

    def seen(self, view: View) -> torch.Tensor:
        return self.memory[view.buffer].as_strided(view.shape, view.strides, view.offset)

    def value(self, body: Expression, shape: tuple[int, ...], names: dict[str, torch.Tensor]) -> torch.Tensor:
        match body:
            case Load(view, dtype):
                assert dtype == str(self.memory[view.buffer].dtype).removeprefix("torch."), (dtype, view.buffer)
                assert view.shape == shape, (view, shape)
                found = self.seen(view)
                return found.double() if found.is_floating_point() else found
            case Constant(value, _):
                return torch.tensor(float(value), dtype=torch.float64) if isinstance(value, float) else torch.tensor(value)
            case Index(axis):
                steps = torch.arange(shape[axis])
                return steps.reshape([-1 if place == axis else 1 for place in range(len(shape))])
            case Name(name):
                return names[name]
            case Cast(dtype, argument):
                target = getattr(torch, dtype)
                return self.value(argument, shape, names).to(torch.float64 if target.is_floating_point else target)
            case Gather(view, stride, size, index, _):
                where = self.value(index, shape, names).expand(shape)
                memory = self.memory[view.buffer].reshape(-1)
                offsets = torch.zeros((), dtype=torch.int64)
                for axis, step in enumerate(view.strides):
                    ramp = torch.arange(shape[axis]) * step
                    offsets = offsets + ramp.reshape([-1 if place == axis else 1 for place in range(len(shape))])
                assert int(where.max()) < size
                found = memory[(offsets + view.offset + where * stride).reshape(-1)].reshape(shape)
                return found.double() if found.is_floating_point() else found
            case Apply(function, arguments):
                values = [self.value(argument, shape, names) for argument in arguments]
                if function in ("maximum", "minimum", "where"):
                    kind = torch.result_type(values[-2], values[-1])
                    values[-2:] = [value.to(kind) for value in values[-2:]]
                found = FUNCTIONS.get(function) or getattr(torch, {"neg": "neg", "not": "logical_not"}.get(function, function))
                return found(*values)
        raise AssertionError(body)

    def store(self, stores: Any, shape: tuple[int, ...], names: dict[str, torch.Tensor]) -> None:
        for store in stores:
            buffer = self.plan.buffers[store.view.buffer]
            target = getattr(torch, buffer.dtype)
            if store.view.buffer not in self.memory:
                self.memory[store.view.buffer] = torch.full(buffer.shape, -77, dtype=torch.float64).to(target)
            value = self.value(store.body, shape, names).to(target)
            self.seen(store.view).copy_(value.expand(shape) if value.shape != shape else value)

    def kernel(self, kernel: Kernel) -> None:
        match kernel:
            case Map():
                self.store(kernel.stores, kernel.shape, {})
            case RowProgram():
                self.rows(kernel)
            case Product():
                left, right = self.seen(kernel.left).double(), self.seen(kernel.right).double()
                shape = (*kernel.batch, kernel.rows, kernel.columns)
                assert left.shape == (*kernel.batch, kernel.rows, kernel.depth), kernel
                self.store(kernel.stores, shape, {"accumulator": left @ right})
            case Convolution():
                rank = len(kernel.stride)
                function = getattr(F, f"conv_transpose{rank}d" if kernel.transposed else f"conv{rank}d")
                extra = {"output_padding": kernel.output_padding} if kernel.transposed else {}
                made = function(
                    self.seen(kernel.source).double(), self.seen(kernel.weight).double(), None, kernel.stride, kernel.padding,
                    groups=kernel.groups, dilation=kernel.dilation, **extra,
                )  # fmt: skip
                self.store(kernel.stores, kernel.shape, {"accumulator": made})
            case Pool():
                self.pool(kernel)
            case Scan():
                shape = (*kernel.kept, kernel.length)
                element = self.value(kernel.element, shape, {})
                function = {"sum": torch.cumsum, "prod": torch.cumprod, "logaddexp": torch.logcumsumexp}.get(kernel.operation)
                running = function(element, -1) if function else getattr(torch, f"cum{kernel.operation}")(element, -1).values
                self.store(kernel.stores, shape, {"running": running})
            case Attention():
                self.attention(kernel)
            case FunctionCall():
                self.call(kernel)

    def rows(self, kernel: RowProgram) -> None:
        shape, count = (*kernel.kept, *kernel.reduced), len(kernel.kept)
        rows: dict[str, torch.Tensor] = {}
        for reduction in kernel.reductions:
            names = {name: value.reshape(*kernel.kept, *[1] * len(kernel.reduced)) for name, value in rows.items()}
            body = self.value(reduction.body, shape, names).expand(shape).reshape(*kernel.kept, -1)
            match reduction.operation:
                case "max" | "min":
                    found = getattr(body, f"a{reduction.operation}")(-1)
                case "argmax" | "argmin" | "sum" | "prod" | "any" | "all":
                    found = getattr(body, reduction.operation)(-1)
            rows[reduction.name] = found
        wide = {name: value.reshape(*kernel.kept, *[1] * (len(shape) - count)) for name, value in rows.items()}
        self.store(kernel.row_stores, kernel.kept, rows)
        self.store(kernel.element_stores, shape, wide)

    def pool(self, kernel: Pool) -> None:
        element = self.value(kernel.element, kernel.source, {}).expand(kernel.source)
        rank = len(kernel.window)
        flat = element.reshape(-1, 1, *kernel.source[-rank:])
        if kernel.operation == "max":
            made = getattr(F, f"max_pool{rank}d")(flat, kernel.window, kernel.stride, kernel.padding, kernel.dilation)
        else:
            extra = {"divisor_override": kernel.divisor} if kernel.divisor and rank > 1 else {}
            made = getattr(F, f"avg_pool{rank}d")(
                flat, kernel.window, kernel.stride, kernel.padding, count_include_pad=kernel.count_padding, **extra
            )
        self.store(kernel.stores, kernel.shape, {"window": made.reshape(kernel.shape)})

    def attention(self, kernel: Attention) -> None:
        query, key, value = (self.seen(view).double() for view in (kernel.query, kernel.key, kernel.value))
        scores = query @ key.transpose(-1, -2) * kernel.scale
        if kernel.causal:
            scores = scores.masked_fill(~torch.ones(kernel.queries, kernel.keys).tril().bool(), -math.inf)
        if kernel.mask is not None:
            mask = self.seen(kernel.mask)
            scores = scores.masked_fill(~mask, -math.inf) if kernel.mask_dtype == "bool" else scores + mask
        shape = (*kernel.batch, kernel.queries, kernel.value_width)
        self.store(kernel.stores, shape, {"accumulator": scores.softmax(-1) @ value})

    def call(self, kernel: FunctionCall) -> None:
        def given(value: Any) -> Any:
            if isinstance(value, View):
                scope = {"self": self.model, **{n: t for n, t in self.memory.items() if n.isidentifier()}}
                found = eval(value.text, scope)
                assert found.shape == value.shape, (value, found.shape)
                assert torch.equal(found.nan_to_num(), self.seen(value).nan_to_num()), value
                return found
            if isinstance(value, PythonText):
                return eval(value.text)
            return tuple(given(item) for item in value) if isinstance(value, tuple) else value

        scope = {"torch": torch, "F": F, "self": self.model, **{n: t for n, t in self.memory.items() if n.isidentifier()}}
        function = eval(kernel.function, scope)
        made = function(*(given(a) for a in kernel.arguments), **{name: given(value) for name, value in kernel.keywords})
        flat = torch.utils._pytree.tree_leaves(eval(f"made{kernel.then}", {"made": made}) if kernel.then else made)
        for name, value in zip(kernel.results, flat):
            if name:
                assert value.shape == self.plan.buffers[name].shape, name
                self.memory[name] = value.contiguous()
