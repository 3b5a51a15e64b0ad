"""The number of a layer that only a cache reads: a kernel that was made for one layer of a model then holds for all of them.

Layers of transformers keep `layer_idx`, and say it to the cache of keys and values when they are given one. A kernel runs only on calls like those it
was judged on, which had none. Some models compute with it (GPT-2 may divide by it), so its readers are looked at.
"""

from __future__ import annotations

import ast
import inspect
import textwrap

from torch import nn

LAYER_INDEX = "layer_idx"


def ignorable(module: nn.Module) -> tuple[str, ...]:
    """The attribute, where nothing but a cache's `update` is given it by any method of the module and its parts."""
    kinds = {kind for part in module.modules() for kind in type(part).__mro__ if kind not in (nn.Module, object)}
    numbered = any(LAYER_INDEX in part.__dict__ for part in module.modules())
    foreign = [kind for kind in kinds if not kind.__module__.startswith("torch.nn.")]
    return (LAYER_INDEX,) if numbered and all(map(_only_for_a_cache, foreign)) else ()


def _only_for_a_cache(kind: type) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):  # nobody can say
        return False
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
    for method in methods:
        calls = [node for node in ast.walk(method) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
        updates = [part for call in calls if call.func.attr == "update" for part in ast.walk(call)]  # type: ignore[attr-defined]
        for node in ast.walk(method):
            named = isinstance(node, ast.Constant) and node.value == LAYER_INDEX
            if named or (isinstance(node, ast.Attribute) and node.attr == LAYER_INDEX and node not in updates):
                return False
    return True
