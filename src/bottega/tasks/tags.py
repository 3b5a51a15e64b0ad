"""Tags of a task from its syntax tree: operator families, data types, level.

Tags help people filter and retrievers find; nothing is decided by them. So names are enough, and nothing is run or resolved.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from bottega.core.task import parsed

_NAMES: dict[str, str] = {
    "conv": "conv convtranspose convolution lazyconv unfold fold",
    "matmul": "linear bilinear matmul mm bmm mv addmm baddbmm addmv einsum tensordot inner kron lazylinear",
    "norm": "layernorm rmsnorm groupnorm batchnorm instancenorm localresponsenorm normalize nativelayernorm rsqrt",
    "softmax": "softmax logsoftmax softmin gumbelsoftmax logsumexp logcumsumexp",
    "activation": "relu relu6 leakyrelu prelu rrelu elu selu celu gelu silu swish mish sigmoid logsigmoid tanh hardtanh erf "
    "hardswish hardsigmoid hardshrink softshrink tanhshrink softplus softsign threshold glu",
    "pooling": "maxpool avgpool adaptiveavgpool adaptivemaxpool lppool fractionalmaxpool",
    "reduction": "sum mean prod max min amax amin argmax argmin std var norm vectornorm median any all nansum logsumexp topk "
    "cosinesimilarity pairwisedistance cdist aminmax countnonzero",
    "scan": "cumsum cumprod cummax cummin logcumsumexp",
    "loss": "crossentropy mse l1 smoothl1 huber nll bce bcewithlogits kldiv binarycrossentropy binarycrossentropywithlogits "
    "ctc tripletmargin tripletmarginwithdistance hingeembedding cosineembedding multimargin softmargin marginranking "
    "poissonnll gaussiannll multilabelmargin",
    "attention": "scaleddotproductattention multiheadattention multiheadattentionforward flexattention transformer "
    "transformerencoder transformerdecoder transformerencoderlayer transformerdecoderlayer",
    "rnn": "rnn lstm gru rnncell lstmcell grucell",
    "embedding": "embedding embeddingbag",
    "indexing": "gather scatter scatteradd scatterreduce indexselect indexadd indexcopy indexput indexreduce take takealongdim "
    "maskedselect maskedscatter nonzero onehot sort argsort searchsorted",
    "elementwise": "add sub mul div pow exp expm1 log log1p sqrt square abs clamp where lerp maskedfill neg sin cos atan2 sign "
    "reciprocal addcmul addcdiv maximum minimum round floor ceil fmod remainder exp2 log2 hypot",
}
"""By family, the operators in canonical spelling: without underscores, capitals, dimensions (`2d`) and the word loss."""
_FAMILIES: dict[str, list[str]] = {}
for _family, _names in _NAMES.items():
    for _name in _names.split():
        _FAMILIES.setdefault(_name, []).append(_family)

FAMILIES = tuple(_NAMES)

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_SHAPE_CALLS = frozenset(
    ("view", "reshape", "expand", "range", "arange", "zeros", "ones", "empty", "full", "pad", "flatten", "unflatten", "split")
)
_DTYPES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "long": "int64",
    "float8_e4m3fn": "float8",
    "float8_e5m2": "float8",
    **{
        name: name for name in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
    },
}
_INTEGER_SOURCES = frozenset(("randint", "randperm", "argsort"))
_INPUT_FUNCTIONS = ("get_inputs", "get_init_inputs")


def tags_of(source: str, level: int | None = None, problem: int | None = None) -> tuple[str, ...]:
    """Families by name, then `dtype:`, `level:` and `problem:` with their values. `TaskError` if the source does not parse."""
    tree = parsed(source, "task")
    found = families(tree)
    return (
        *(family for family in FAMILIES if family in found),
        *(f"dtype:{name}" for name in data_types(tree)),
        *([f"level:{level}"] if level is not None else []),
        *([f"problem:{problem}"] if problem is not None else []),
    )


def families(tree: ast.Module) -> set[str]:
    """The operator families that the module's code calls, leaving out the functions that only make inputs."""
    found: set[str] = set()
    for statement in tree.body:
        if not (isinstance(statement, ast.FunctionDef) and statement.name in _INPUT_FUNCTIONS):
            for node in ast.walk(statement):
                found.update(_families_of(node))
    for function in _functions(tree):
        if function.name not in ("__init__", *_INPUT_FUNCTIONS):
            found.update(_families_of_function(function))
    return found


def data_types(tree: ast.Module) -> list[str]:
    """Data types that the source names; float32 where it names no floating one."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _DTYPES:
            found.add(_DTYPES[node.attr])
        elif isinstance(node, ast.Call) and _called(node) in _INTEGER_SOURCES:
            found.update(() if any(keyword.arg == "dtype" for keyword in node.keywords) else ("int64",))
    for function in _functions(tree):
        if function.name == "get_inputs" and any(isinstance(node, ast.Compare) for node in ast.walk(function)):
            found.add("bool")
    if not any(name.startswith(("float", "bfloat")) for name in found):
        found.add("float32")
    return sorted(found)


def _families_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Call) and not _is_own_or_builtin(node.func):
        return _FAMILIES.get(_canonical(_called(node)), [])
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        return ["matmul"]
    return []


def _is_own_or_builtin(function: ast.expr) -> bool:
    """`self.norm(x)` calls a module that was named where it was made; a bare `sum()` or `max()` is Python's own."""
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id == "self"
    return isinstance(function, ast.Name) and hasattr(builtins, function.id)


def _families_of_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """What only a function as a whole shows: arithmetic on tensors, indexing by one, and operators spelled out."""
    nodes = list(ast.walk(function))
    calls = _calls(function)
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    arguments = {argument.arg for argument in function.args.args}
    if _computes(function):
        yield "elementwise"
    if any(isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Name) and n.slice.id in arguments for n in nodes):
        yield "indexing"
    if calls & {"mean", "var", "std"} and calls & {"sqrt", "rsqrt"}:
        yield "norm"
    if "logsoftmax" in calls and "gather" in calls:
        yield "loss"
    if calls & {"stack", "cat"} and any(isinstance(node, ast.For) and "append" in _calls(node) for node in nodes):
        yield "scan"
    products = sum("matmul" in _families_of(node) for node in nodes)
    if products >= 2 and "softmax" in calls and attributes & {"transpose", "T", "mT", "t", "permute"}:
        yield "attention"


def _calls(node: ast.AST) -> set[str]:
    return {_canonical(_called(inner)) for inner in ast.walk(node) if isinstance(inner, ast.Call)}


def _computes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Arithmetic that is not about shapes: outside subscripts and the arguments of calls that take sizes."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, _ARITHMETIC):
            return True
        if isinstance(node, ast.Subscript):
            pending.append(node.value)
        elif isinstance(node, ast.Call) and _called(node) in _SHAPE_CALLS:
            pending.append(node.func)
        else:
            pending.extend(ast.iter_child_nodes(node))
    return False


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _canonical(name: str) -> str:
    """`log_softmax_`, `LogSoftmax` and `log_softmax` are one operator."""
    return re.sub(r"([123]d)?(loss)?$", "", name.replace("_", "").lower(), count=1)
