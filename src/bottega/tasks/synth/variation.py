"""A task like one that somebody wrote: its structure, with other functions, operators and constants in it.

What stands in one another's place takes the same arguments and gives the same shape, so that nearly every variation runs. Running it says which.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from random import Random
from typing import TypeVar

from bottega.core.task import parsed

T = TypeVar("T")

SHARE = 0.4
"""Of the places that could be changed, those that are."""
ATTEMPTS = 8
SMALLEST_CONSTANT = 1e-3
"""What is smaller keeps a division from zero."""
FACTORS = (0.25, 0.5, 0.8, 1.25, 1.5, 2.0, 3.0)
TAKE_SIZES = (
    "view",
    "reshape",
    "expand",
    "repeat",
    "flatten",
    "unflatten",
    "split",
    "chunk",
    "pad",
    "arange",
    "zeros",
    "ones",
    "full",
)
HAVE_A_DOMAIN = ("sqrt", "rsqrt", "log", "log1p", "log2", "reciprocal", "div", "pow", "acos", "asin")
"""What these are given is left as its author saw to it."""

_ACTIVATIONS = (
    *("relu", "gelu", "silu", "mish", "softplus", "elu", "selu", "celu", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu"),
    *("softsign", "relu6", "logsigmoid", "tanhshrink", "sigmoid", "tanh"),
)
_LAYERS = (
    *("ReLU", "GELU", "SiLU", "Mish", "Softplus", "ELU", "SELU", "CELU", "Hardswish", "Hardsigmoid", "Hardtanh", "LeakyReLU"),
    *("Softsign", "ReLU6", "LogSigmoid", "Tanhshrink", "Sigmoid", "Tanh"),
)
_FUNCTIONS = ("relu", "sigmoid", "tanh", "abs", "square", "sin", "cos", "erf", "atan")
UNARY = {"functional": _ACTIVATIONS, "nn": _LAYERS, "torch": _FUNCTIONS, "tensor": _FUNCTIONS}
"""Functions of one tensor, by whose they are. Whatever else they are given is theirs alone, and goes."""
_POOLS = (("max_pool{}d", "avg_pool{}d"), ("MaxPool{}d", "AvgPool{}d"))
_ADAPTIVE = (("adaptive_max_pool{}d", "adaptive_avg_pool{}d"), ("AdaptiveMaxPool{}d", "AdaptiveAvgPool{}d"))
_GROUPS = (
    ("sum", "mean"),
    ("amax", "amin"),
    ("max", "min"),
    ("argmax", "argmin"),
    ("var", "std"),
    ("maximum", "minimum"),
    ("softmax", "log_softmax"),
    ("Softmax", "LogSoftmax"),
    ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
    ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"),
    *(tuple(name.format(dims) for name in pair) for pair in (*_POOLS, *_ADAPTIVE) for dims in (1, 2, 3)),
)
ALIKE = {name: group for group in _GROUPS for name in group}
"""Functions that take the same arguments."""
SHARED = {"ool": frozenset(("kernel_size", "stride", "padding", "output_size")), "oss": frozenset(("reduction",))}
"""Arguments by name that poolings of all kinds take, and losses."""
OPERATORS: tuple[type[ast.operator], ...] = (ast.Add, ast.Sub, ast.Mult)


def varied(source: str, chance: Random) -> str:
    """The source with some of its functions, operators and constants replaced; as it was where nothing can be."""
    for _ in range(ATTEMPTS):
        tree = parsed(source, "task")
        variation = _Variation(chance)
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                variation.visit(statement)
            elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                statement.value = variation.constant(statement.value)
        if variation.changes:
            return ast.unparse(ast.fix_missing_locations(_without_docstrings(tree))) + "\n"
    return source


class _Variation(ast.NodeTransformer):
    def __init__(self, chance: Random):
        self.chance = chance
        self.changes = 0
        self.computing = False
        """In a method other than the constructor, whose arithmetic is about sizes."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before, self.computing = self.computing, node.name != "__init__"
        node.body = [self.visit(statement) for statement in node.body]
        self.computing = before
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
            if node.func.attr in TAKE_SIZES or node.func.attr in HAVE_A_DOMAIN:
                return node
            self._rename(node, node.func)
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node.left = self.visit(node.left)
        if isinstance(node.op, ast.Div):
            return node  # what is divided by stays away from zero as its author saw to it
        node.right = self.visit(node.right)
        if self.computing and isinstance(node.op, OPERATORS) and self._drawn(0.5):
            node.op = self._other(OPERATORS, type(node.op))()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self.constant(node)

    def constant(self, node: ast.Constant) -> ast.Constant:
        if not isinstance(node.value, float) or not SMALLEST_CONSTANT < abs(node.value) < 1e6 or not self._drawn():
            return node
        self.changes += 1
        return ast.Constant(float(f"{node.value * self.chance.choice(FACTORS):.3g}"))

    def _rename(self, call: ast.Call, function: ast.Attribute) -> None:
        owner, name = _owner(function.value), function.attr
        if owner == "none" or not self._drawn():
            return
        if name in UNARY[owner] and (owner != "tensor" or not (call.args or call.keywords)):
            function.attr = self._other(UNARY[owner], name)
            call.args, call.keywords = call.args[: owner in ("functional", "torch")], []
        elif name in ALIKE and all(
            {keyword.arg for keyword in call.keywords} <= shared for kind, shared in SHARED.items() if kind in name
        ):
            function.attr = self._other(ALIKE[name], name)

    def _drawn(self, share: float = 1.0) -> bool:
        return self.chance.random() < SHARE * share

    def _other(self, options: Sequence[T], than: T) -> T:
        self.changes += 1
        return self.chance.choice([option for option in options if option != than])


def _owner(value: ast.expr) -> str:
    """Whose function it is: torch's, `nn`'s, `nn.functional`'s, a tensor's, or of none that we know."""
    if isinstance(value, ast.Attribute) and value.attr in ("nn", "functional"):
        return value.attr
    if isinstance(value, ast.Name):
        return {"F": "functional", "nn": "nn", "torch": "torch", "self": "none", "math": "none"}.get(value.id, "tensor")
    return "tensor"


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """They told of what is no longer there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            rest = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
            node.body = rest or [ast.Pass()]
    return tree
