"""What an answer leaves out comes from the task, and nothing else does."""

from __future__ import annotations

import ast

import pytest
import torch
from executed import executed

from bottega.compiler.link import linked

TASK = '''\
"""Two convolutions and a head."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from functools import partial, reduce

WIDTH = 8
DEPTH, UNUSED = 2, 3
batch = 4
torch.backends.cudnn.benchmark = False


def scaled(x):
    return x / math.sqrt(WIDTH)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return scaled(x) * self.gain


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return F.relu(self.inner(x))


def double_conv():
    return nn.Sequential(*[Block() for _ in range(DEPTH)])


class Model(nn.Module):
    """The module."""

    def __init__(self):
        super().__init__()
        self.convs = double_conv()

    def forward(self, x):
        return self.convs(x)


def only_for_inputs():
    return torch.randn(batch, WIDTH)


def get_inputs():
    return [only_for_inputs()]


def get_init_inputs():
    return []
'''
SHORT = "import torch\n\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return self.convs(x) * 2\n"


def names(source: str) -> set[str]:
    return set(executed(source).__dict__)


def test_everything_that_the_constructor_needs_comes_along_and_it_computes() -> None:
    whole = linked(SHORT, TASK)
    made, task = executed(whole), executed(TASK)
    x = torch.randn(4, 8)
    torch.testing.assert_close(made.ModelNew()(x), task.Model()(x) * 2)
    assert {"Block", "Inner", "double_conv", "scaled", "WIDTH", "DEPTH", "math"} <= set(made.__dict__)
    assert SHORT.split("\n\n\n")[1] in whole, "the answer's own text stays"


def test_what_nobody_needs_stays_behind() -> None:
    whole = linked(SHORT, TASK)
    assert not {"get_inputs", "get_init_inputs", "only_for_inputs", "batch", "partial", "reduce"} & names(whole)
    assert "cudnn" not in whole


def test_inputs_come_only_by_name() -> None:
    accidents = (
        "def f(get_inputs):\n    return get_inputs()\n\n\n",
        "def f(x):\n    get_inputs = x\n    return get_inputs\n\n\n",
        'SOURCE = "get_inputs() batch"\n\n\n',
        "def f(x):\n    return x.get_inputs()\n\n\n",
    )
    for accident in accidents:
        assert not {"get_inputs", "only_for_inputs", "batch"} & names(linked(accident + SHORT, TASK))
    wanted = linked(SHORT + "\n\ndef check():\n    return get_inputs()\n", TASK)
    assert executed(wanted).check()[0].shape == (4, 8)


def test_an_answer_with_nothing_missing_is_untouched() -> None:
    answer = "import torch\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n  def forward(self, x): return torch.relu( x )  # as is"
    assert linked(answer, TASK) == answer
    assert linked(TASK + "\n\nclass ModelNew(Model): pass", TASK) == TASK + "\n\nclass ModelNew(Model): pass"


def test_builtins_are_not_missing() -> None:
    answer = "class ModelNew:\n    def forward(self, x):\n        return sum(x)\n"
    assert linked(answer, "def sum(x):\n    return 0\n\n\n" + TASK) == answer


def test_own_bindings_win() -> None:
    own = (
        "import torch\nfrom torch import nn\n\nWIDTH = 16\n\n\nclass Block(nn.Module):\n    pass\n\n\n"
        + SHORT.split("\n\n\n")[1]
    )
    made = executed(linked(own, TASK))
    assert made.WIDTH == 16 and not hasattr(made, "Inner")
    assert all(type(layer) is made.Block and not list(layer.parameters()) for layer in made.ModelNew().convs)


def test_what_needs_the_answers_code_at_once_stands_behind_it() -> None:
    task = "BASE = 1\n\n\nclass Base:\n    word = 'task'\n\n\nclass Model(Base):\n    size = BASE\n\n\nONE = Model.size\n"
    answer = (
        "import math\n\nSIZE = BASE + 1\n\n\n# ours\nclass Base:\n    word = 'own'\n\n\nclass ModelNew(Model):\n    one = ONE\n"
    )
    made = executed(linked(answer, task))
    assert made.ModelNew.word == "own" and made.ModelNew.size == made.ModelNew.one == 1 and made.SIZE == 2


def test_a_late_import_of_the_answer_is_enough() -> None:
    made = executed(linked("import torch\n\nTEXT = 'x'\nimport torch.nn as nn\n\n\nclass ModelNew(Model):\n    pass\n", TASK))
    assert issubclass(made.ModelNew, made.Model)


def test_imports_stand_at_the_top_and_the_future_first() -> None:
    task = "from __future__ import annotations\n" + TASK.replace('"""Two convolutions and a head."""', "")
    lines = linked('"""Mine."""\n' + SHORT, task).splitlines()
    assert lines[0] == '"""Mine."""' and "from __future__ import annotations" in lines[1:5]
    body = ast.parse("\n".join(lines)).body
    kinds = [isinstance(node, ast.Import | ast.ImportFrom) for node in body[1:]]
    assert kinds == sorted(kinds, reverse=True)
    assert [node.module for node in body if isinstance(node, ast.ImportFrom)] == ["__future__"]
    executed("\n".join(lines))


def test_kernels_in_strings_are_not_python() -> None:
    answer = 'CODE = r"""\nint Model = WIDTH; Block();\n"""\n\n\nclass ModelNew:\n    code = CODE\n'
    assert linked(answer, TASK) == answer


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "class ModelNew(Model:\n",
        "from torch import *\nclass ModelNew(Model): pass",
        "if True:\n    Block = 3\nclass ModelNew(Model): pass\n",
        "ModelNew = Model",
        "ModelNew = Model; x = 1; import os; from math import pi\\\n\n",
        "def f():\n    from math import *\nclass ModelNew(Model): pass\n",
        "nonlocal Model\nclass ModelNew(Model): pass\n",
        "\x00class ModelNew(Model): pass",
        "x = " + "(" * 300 + ")" * 300 + "\nclass ModelNew(Model): pass\n",
        "# -*- coding: utf-8 -*-\r\nclass ModelNew(Model):\r\n    pass\r\n",
        "import torch; \\\nx = 1\nclass ModelNew(Model): pass\n",
        "\x0cclass ModelNew(Model):\n    text = '\x0c\u2028'\n",
        "'''Text.'''; import torch\n@torch.no_grad\nclass ModelNew(Model): pass\n",
    ],
)
def test_odd_answers_never_raise_and_stay_python(answer: str) -> None:
    for task in (TASK, "class Model(:\n", "", "from math import *\n" + TASK, "class Model(Model): pass\n"):
        whole = linked(answer, task)
        assert whole == answer or "ModelNew" in {getattr(node, "name", "ModelNew") for node in ast.parse(whole).body}


def test_a_name_bound_only_in_a_branch_is_the_answers() -> None:
    made = executed(
        linked("if True:\n    Block = list\n\n\nclass ModelNew(Model):\n    pass\n", TASK.replace("*[", "*[nn.Identity() and "))
    )
    assert made.Block is list and not hasattr(made, "Inner")


def test_an_import_of_everything_comes_where_a_name_may_need_it() -> None:
    task = "from math import *\n\n\nclass Model:\n    root = sqrt(4)\n"
    made = executed(linked("from cmath import pi as e\n\n\nclass ModelNew(Model):\n    pass\n", task))
    assert made.ModelNew.root == 2 and made.e == made.pi
