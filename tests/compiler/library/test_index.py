"""Parts of the kernel library are put into answers that call them, under names that are free, and taken out again."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
import torch
from executed import executed
from module_task import module_task

from bottega.compiler.library.index import KernelLibraryError, kernel_library
from bottega.compiler.library.insert import with_library_functions, without_library_functions
from bottega.compiler.library.renaming import renamed
from bottega.compiler.link import linked
from bottega.compiler.strip import stripped

SMALL = kernel_library(Path(__file__).parent / "small_library")
TASK = module_task("torch.relu(self.conv(x))", "torch.randn(2, 3, 16, 16)", init="self.conv = nn.Conv2d(3, 8, 3, padding=1)")
CALLS = """\
import torch


class ModelNew(Model):
    def forward(self, x):
        t1 = conv2d(x, self.conv.weight, self.conv.bias, padding=1)
        return torch.relu(t1)
"""
ROWS = "import torch\n\n\ndef twice(x):\n    return torch.mul(softmax(x), 2)\n"
NONE: frozenset[str] = frozenset()


def expected(x: torch.Tensor) -> torch.Tensor:
    return x * (x.shape[-1] + 4) * 8 + math.pi


def test_a_part_comes_with_all_it_needs_and_nothing_else() -> None:
    whole = with_library_functions(ROWS, NONE, SMALL)
    x = torch.randn(2, 3)
    torch.testing.assert_close(executed(whole).twice(x), 2 * expected(x))
    names = [name for node in ast.parse(whole).body for name in [getattr(node, "name", None)] if name]
    assert sorted(names[:-1]) == ["row_step", "softmax", "width_of"] and names[-1] == "twice"
    assert "bottega" not in whole and "# the ratio" in whole and "nn" not in executed(whole).__dict__
    assert with_library_functions(whole, NONE, SMALL) == whole
    assert without_library_functions(whole, NONE, SMALL) == ROWS


def test_a_class_stands_before_the_one_that_inherits_it() -> None:
    made = executed(with_library_functions("class Mine(Softmax):\n    pass\n", NONE, SMALL))
    x = torch.randn(2, 3)
    torch.testing.assert_close(made.Mine(-1)(x), torch.relu(expected(x)))


@pytest.mark.parametrize(
    "own",
    [
        "WIDTH = 100\n",
        "math = 7\n",
        "import numpy as math\n",
        "def width_of(x):\n    return 'mine'\n",
        "class row_step:\n    pass\n",
        "width_of_part = row_step = 1\n\n\ndef width_of():\n    return width_of_part\n",
        "if torch:\n    ROW_SCALE = None\n",
        "def late():\n    global WIDTH\n    WIDTH = 0\n\n\nlate()\n",
        "try:\n    import math\nexcept ImportError:\n    math = None\n",
    ],
)
def test_names_of_the_answer_keep_their_meaning_and_the_part_its_own(own: str) -> None:
    answer = ROWS.replace("def twice", f"{own}\n\ndef twice")
    alone = executed(own if "torch" not in own else f"import torch\n{own}")
    whole = with_library_functions(answer, NONE, SMALL)
    made, x = executed(whole), torch.randn(2, 3)
    torch.testing.assert_close(made.twice(x), 2 * expected(x))
    for name, value in vars(alone).items():
        if not name.startswith("__") and not callable(value):
            assert vars(made)[name] == value
    if "def width_of" in own:
        assert made.width_of(*([x] if "(x)" in own else [])) in ("mine", 1)
    assert with_library_functions(whole, NONE, SMALL) == whole
    back = with_library_functions(without_library_functions(whole, NONE, SMALL), NONE, SMALL)
    torch.testing.assert_close(executed(back).twice(x), 2 * expected(x))


@pytest.mark.parametrize(
    "answer",
    [
        "def softmax(x):\n    return x\n\n\ny = softmax(1)\n",
        "from torch import softmax\n\ny = softmax\n",
        "from torch.nn.functional import *\n\ny = softmax\n",
        "import torch\n\ny = torch.softmax\n",
        "class A:\n    def f(self):\n        return self.softmax(1)\n",
        "def f(softmax):\n    return softmax(1)\n",
        "def f():\n    softmax = max\n    return softmax(1)\n",
        "def f():\n    global softmax\n    softmax = max\n\n\ndef g():\n    return softmax(1)\n",
        "y = [softmax for softmax in range(3)]\n",
        "text = 'softmax(x)'\n",
        "y = row_step(1)\n",
        "y = WIDTH\n",
        "from bottega.runtime import cpp\n\n\ndef f(x):\n    return softmax(x)\n",
        "def f(:\n    softmax(x)\n",
    ],
)
def test_what_is_no_use_of_a_part_stays_as_it_is(answer: str) -> None:
    assert with_library_functions(answer, NONE, SMALL) == answer


def test_a_task_that_has_the_name_keeps_it() -> None:
    for given in ("from torch.nn.functional import conv2d\n", "def conv2d(*args, **options):\n    return 3\n"):
        whole = linked(CALLS, given + TASK)
        assert "triton" not in whole and given.split("(")[0].strip() in whole
    assert "triton" not in linked(CALLS, "from torch.nn.functional import *\n" + TASK)


def test_definitions_that_differ_stay() -> None:
    whole = with_library_functions(ROWS, NONE, SMALL)
    for change in (
        ("return x * width", "return x + width"),
        ("WIDTH = 4", "WIDTH = 5"),
        ("import math", "import cmath as math"),
    ):
        changed = whole.replace(*change)
        assert changed != whole
        short = without_library_functions(changed, NONE, SMALL)
        assert (
            executed(with_library_functions(short, NONE, SMALL)).twice(torch.ones(2)).tolist()
            == executed(changed).twice(torch.ones(2)).tolist()
        )
        assert change[1] in short
    assert without_library_functions(whole, frozenset({"softmax"}), SMALL) == whole
    assert "def softmax" in without_library_functions(whole + "\n\nsoftmax = None\n", NONE, SMALL)


def test_only_names_of_the_file_are_renamed() -> None:
    text = "def f(x, a=tile, *, tile=1):\n    y = [tile for tile in x] + g.tile(tile=2)\n    return y, (lambda: tile)\n"
    assert renamed(text, {"tile": "t", "f": "h"}) == text.replace("a=tile,", "a=t,").replace("def f", "def h")
    assert renamed("@tile\ndef f(x: tile):  # é\n    return 'é', tile(x)", {"tile": "t"}) == (
        "@t\ndef f(x: t):  # é\n    return 'é', t(x)"
    )


@pytest.mark.parametrize(
    "text", ["x = (", "from torch import *\n", "if True:\n    x = 1\n", "import torch.nn\n", "print(1)\n",
             "from bottega.compiler.library.triton.tiles import nothing\n", "def f():\n    pass\n\n\ndef f():\n    pass\n"]
)  # fmt: skip
def test_a_file_that_cannot_be_a_part_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(text)
    with pytest.raises(KernelLibraryError):
        kernel_library(tmp_path)


def test_the_shipped_parts_are_whole() -> None:
    library = kernel_library()
    assert {"conv2d", "linear", "matmul", "max_pool2d", "batch_norm", "Conv2d", "Linear"} <= set(library.offered())
    for name in library.offered():
        text = library.source_of([name])
        bound = {name for node in ast.parse(text).body for name in [getattr(node, "name", "")]}
        assert name in bound and "bottega" not in text
        assert library.source_of([name]) == text and with_library_functions(text, NONE) == text, (
            "everything that it reads is there"
        )


def test_an_answer_in_the_call_graphs_words_becomes_whole_and_short_again() -> None:
    whole = linked(CALLS, TASK)
    body = ast.parse(whole).body
    names = [getattr(node, "name", "") for node in body]
    assert names.index("conv2d") < names.index("ModelNew") and "import triton" in whole and "bottega" not in whole
    assert linked(whole, TASK) == whole
    assert stripped(whole, TASK) == CALLS and stripped(CALLS, TASK) == CALLS


def test_long_and_broken_answers_are_left_alone() -> None:
    for answer in (CALLS + "x = 1\n" * 200_000, CALLS + "(", CALLS + "\x00", CALLS.replace("x, ", "(" * 400)):
        assert linked(answer, TASK) == answer and stripped(answer, TASK) == answer


def test_a_name_that_only_a_kernel_reads_is_no_call_of_a_part() -> None:
    kernel = "import triton\n\n\n@triton.jit\ndef k(x_ptr):\n    return sigmoid(x_ptr)\n\n\n"
    kernel += "class ModelNew(Model):\n    def forward(self, x):\n        return k\n"
    assert with_library_functions(kernel, frozenset()) == kernel
    outside = kernel.replace("return k\n", "return sigmoid(x)\n")
    assert "def sigmoid(" in with_library_functions(outside, frozenset())


def test_a_future_import_that_shares_its_line_is_left_where_it_is() -> None:
    text = "from __future__ import annotations; X = 1\n\n\nclass ModelNew:\n    def forward(self, x):\n        return relu(x)\n"
    compile(with_library_functions(text, frozenset()), "whole", "exec")


def alone(answer: str) -> str:
    """What the whole file says about it, after it became short and whole again."""
    whole = with_library_functions(answer, NONE)
    assert (
        with_library_functions(whole, NONE) == whole
        and with_library_functions(without_library_functions(whole, NONE), NONE) == whole
    )
    assert without_library_functions(whole, NONE) == answer
    return next(line for line in whole.split("\n") if line.startswith("ALONE = "))


ONE = "def f(x, y):\n    return matmul(x, y)\n"


@pytest.mark.parametrize(
    "answer",
    [
        ONE,
        "import torch\n\n\n" + ONE.replace("matmul(x, y)", "torch.relu(matmul(x, transpose(y, 0, 1)))"),
        "class ModelNew(Model):\n    def __init__(self):\n        self.conv = Conv2d(3, 4, 3)\n",
    ],
)
def test_a_part_that_is_all_of_an_answers_kernels_is_told_so(answer: str) -> None:
    assert alone(answer) == "ALONE = True"


@pytest.mark.parametrize(
    "answer",
    [
        ONE.replace("matmul(x, y)", "relu(matmul(x, y))"),
        ONE.replace("matmul(x, y)", "matmul(x, matmul(x, y))"),
        ONE.replace("return matmul(x, y)", "for _ in range(3):\n        x = matmul(x, y)\n    return x"),
        ONE.replace("matmul(x, y)", "[matmul(x, one) for one in y]"),
        ONE.replace("matmul(x, y)", "map(matmul, x, y)"),
        "import triton\n\n\n@triton.jit\ndef k(x_ptr):\n    pass\n\n\n" + ONE,
    ],
)
def test_one_of_several_kernels_is_not_alone(answer: str) -> None:
    assert alone(answer) == "ALONE = False"


def test_a_file_that_says_otherwise_keeps_what_it_says() -> None:
    for answer in (ONE, ONE.replace("matmul(x, y)", "relu(matmul(x, y))")):
        whole = with_library_functions(answer, NONE)
        said = "ALONE = True" if "ALONE = True" in whole else "ALONE = False"
        other = whole.replace(said, "ALONE = False" if said == "ALONE = True" else "ALONE = True")
        assert without_library_functions(other, NONE) == other and with_library_functions(other, NONE) == other


def test_a_name_of_the_answer_is_not_taken_for_the_parts() -> None:
    whole = with_library_functions(ONE.replace("def f", "ALONE = 3\n\n\ndef f"), NONE)
    assert "\nALONE_part = True\n" in whole and "\nALONE = 3\n" in whole and "ALONE_part and" in whole
