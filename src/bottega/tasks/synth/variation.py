"""A task like one that somebody wrote: its structure, with other functions, operators and constants in it.

What stands in one another's place takes the same arguments and gives the same shape, so that nearly every variation runs. Running it says which.
"""

from __future__ import annotations

import ast
import re
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
LARGEST_CONSTANT = 1e4
"""What is larger stands for infinity."""
FACTORS = (0.25, 0.5, 0.8, 1.25, 1.5, 2.0, 3.0)
_TAKE_SIZES = (
    *("view", "reshape", "expand", "repeat", "flatten", "unflatten", "split", "chunk", "narrow", "pad", "int"),
    *("arange", "eye", "zeros", "ones", "full", "gather", "index_select", "one_hot", "interpolate", "Upsample"),
)
_HAVE_A_DOMAIN = (
    *("sqrt", "rsqrt", "log", "log1p", "log2", "logit", "exp", "expm1", "reciprocal", "div", "pow", "float_power", "xlogy"),
    *("acos", "asin", "acosh", "atanh", "binary_cross_entropy", "BCELoss"),
)
_HAVE_BOUNDS = (
    *("clamp", "clip", "hardtanh", "Hardtanh", "quantile", "uniform_", "normal_", "trunc_normal_"),
    *("dropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d"),
)
LEFT = frozenset((*_TAKE_SIZES, *_HAVE_A_DOMAIN, *_HAVE_BOUNDS))
"""Calls that are left as they are, with all that they are applied to."""
COUNTING = frozenset(("size", "numel", "dim", "ndim", "shape", "len", "range"))

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
SHARED = {
    "Pool": (frozenset(("kernel_size", "stride", "padding", "output_size")), 3),
    "_pool": (frozenset(("kernel_size", "stride", "padding", "output_size")), 4),
    "AdaptiveMax": (frozenset(("output_size",)), 1),
    "AdaptiveAvg": (frozenset(("output_size",)), 1),
    "adaptive_": (frozenset(("output_size",)), 2),
    "Loss": (frozenset(("reduction",)), 0),
    "_loss": (frozenset(("reduction",)), 2),
}
"""Of poolings and losses, the arguments that those of all kinds take: by name, and how many by place."""
OPERATORS: tuple[type[ast.operator], ...] = (ast.Add, ast.Sub, ast.Mult)


def varied(source: str, chance: Random) -> str:
    """The source with some of its functions, operators and constants replaced; as it was where nothing can be."""
    for _ in range(ATTEMPTS):
        tree = parsed(source, "task")
        variation = _Variation(chance, takes_logarithms=re.search(r"\blog2?\(", source) is not None)
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                variation.visit(statement)
            elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                statement.value = variation.constant(statement.value)
        if variation.changes:
            return ast.unparse(ast.fix_missing_locations(_without_docstrings(tree))) + "\n"
        if not variation.chances:
            break
    return source


class _Variation(ast.NodeTransformer):
    def __init__(self, chance: Random, takes_logarithms: bool):
        self.chance = chance
        self.fixed = frozenset(("softmax", "Softmax") if takes_logarithms else ())
        self.chances = 0
        """Places that could be changed."""
        self.changes = 0
        self.computing = False
        """In a method other than the constructor, whose arithmetic is about sizes."""
        self.counts: set[str] = set()
        """Names of sizes and places, as far as the method has been read."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before, self.computing = self.computing, node.name != "__init__"
        node.body = [self.visit(statement) for statement in node.body]
        self.computing = before
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if self._is_count(node.value):
            self.counts |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            return node
        node.value = self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _called(node) in LEFT:
            return node
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
            self._rename(node, node.func)
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.Pow) or self._is_count(node):
            return node
        node.left = self.visit(node.left)
        if isinstance(node.op, ast.Div):
            return node  # what is divided by stays away from zero as its author saw to it
        node.right = self.visit(node.right)
        odd = any(isinstance(side, ast.Compare) or self._is_count(side) for side in (node.left, node.right))
        if self.computing and isinstance(node.op, OPERATORS) and not odd and self._drawn(0.5):
            node.op = self._other(OPERATORS, type(node.op))()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self.constant(node)

    def constant(self, node: ast.Constant) -> ast.Constant:
        """Another of the same sign; a share stays one."""
        if not isinstance(node.value, float) or not SMALLEST_CONSTANT < abs(node.value) < LARGEST_CONSTANT or not self._drawn():
            return node
        value = float(f"{node.value * self.chance.choice(FACTORS):.3g}")
        if abs(node.value) < 1 <= abs(value):
            return node
        self.changes += 1
        return ast.Constant(value)

    def _rename(self, call: ast.Call, function: ast.Attribute) -> None:
        owner, name = _owner(function.value), function.attr
        by_name = {keyword.arg for keyword in call.keywords}
        if (
            owner == "none"
            or name in self.fixed
            or by_name & {"input", "dtype"}
            or _is_whole(function.value)
            or not self._drawn()
        ):
            return
        if name in UNARY[owner] and (owner != "tensor" or not (call.args or call.keywords)):
            function.attr = self._other(UNARY[owner], name)
            call.args, call.keywords = call.args[: owner in ("functional", "torch")], []
        elif name in ALIKE and all(
            by_name <= names and len(call.args) <= places for kind, (names, places) in SHARED.items() if kind in name
        ):
            function.attr = self._other(ALIKE[name], name)

    def _is_count(self, node: ast.expr) -> bool:
        """Whether it is a whole number, a tuple of them, or made of some, as far as its text shows."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int)
        if isinstance(node, ast.Name):
            return node.id in self.counts
        if isinstance(node, ast.Tuple | ast.List):
            return any(map(self._is_count, node.elts))
        if isinstance(node, ast.BinOp):
            return self._is_count(node.left) and self._is_count(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_count(node.operand)
        if isinstance(node, ast.Subscript):
            return self._is_count(node.value)
        return (_called(node) if isinstance(node, ast.Call) else getattr(node, "attr", "")) in COUNTING

    def _drawn(self, share: float = 1.0) -> bool:
        self.chances += 1
        return self.chance.random() < SHARE * share

    def _other(self, options: Sequence[T], than: T) -> T:
        self.changes += 1
        return self.chance.choice([option for option in options if option != than])


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_whole(value: ast.expr) -> bool:
    """Whether a method is asked of what is yes or no, or whole numbers, by its text."""
    return isinstance(value, ast.Compare) or (isinstance(value, ast.Call) and _called(value) in ("long", "int", "bool"))


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
