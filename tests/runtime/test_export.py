"""Exported candidates run in a fresh interpreter that cannot import Bottega."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from bottega.runtime.export import export_source

PLUS_ONE = r"""r'''extern "C" int plus_one(int n) { return n + 1; }'''"""


def run_alone(source: str, folder: Path) -> str:
    """What the file prints, run from a folder of its own by a Python to which Bottega does not exist."""
    (folder / "kernel.py").write_text(source, encoding="utf-8")
    script = "import sys; sys.modules['bottega'] = None; import runpy; runpy.run_path('kernel.py')"
    ran = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.rotates
@pytest.mark.parametrize(
    "body",
    [
        "from bottega.runtime import cpp\nprint(cpp(SOURCE).plus_one(1))",
        "from bottega.runtime import cpp as compile_it, CompileError\nprint(compile_it(SOURCE).plus_one(1))",
        "from bottega.runtime import (\n    cpp,  # the compiler\n    cuda,\n)\nprint(cpp(SOURCE).plus_one(1))",
        "from bottega.runtime import *\nprint(cpp(SOURCE).plus_one(1))",
        "from bottega.runtime.cplusplus import cpp\nprint(cpp(SOURCE).plus_one(1))",
        "import bottega.runtime\nprint(bottega.runtime.cpp(SOURCE).plus_one(1))",
        "import bottega.runtime as rt\nprint(rt.cpp(SOURCE).plus_one(1))",
        "import os, bottega.runtime as rt, sys as system\nprint(rt.cpp(SOURCE).plus_one(1)); os.sep, system.path",
        "import bottega.runtime.cplusplus as c, json\nprint(c.cpp(SOURCE).plus_one(1)); json.dumps(1)",
        "import bottega\nimport bottega.runtime\nprint(bottega.runtime.cpp(SOURCE).plus_one(1))",
        "from bottega import runtime\nprint(runtime.cpp(SOURCE).plus_one(1))",
        "from bottega import runtime as rt\nprint(rt.cpp(SOURCE).plus_one(1))",
        "def f():\n    from bottega.runtime import cpp; return cpp(SOURCE).plus_one(1)\nprint(f())",
        "def f():\n    import bottega.runtime\n    return bottega.runtime.cpp(SOURCE).plus_one(1)\nprint(f())",
        "ü = 'ä'; from bottega.runtime import cpp; print(cpp(SOURCE).plus_one(1))",
        "try:\n    from bottega.runtime import cpp\nexcept ImportError:\n    cpp = None\nprint(cpp(SOURCE).plus_one(1))",
        "if True: from bottega.runtime import cpp\nprint(cpp(SOURCE).plus_one(1))",
    ],
)
def test_every_form_of_import(body: str, tmp_path: Path) -> None:
    exported = export_source(f"SOURCE = {PLUS_ONE}\n{body}\n")
    assert run_alone(exported, tmp_path) == "2\n"


@pytest.mark.parametrize(
    "head",
    [
        '"""What it is."""\nfrom __future__ import annotations\n',
        '"""What it is."""; from __future__ import annotations; ',
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# A licence.\nfrom __future__ import annotations  # why\n",
        "from __future__ import annotations\nfrom __future__ import division\n",
        "from __future__ import annotations; import os; ",
        '"""Two\nlines."""  # and a comment\n',
        "# only a comment\n\n",
        "\ufeff",
        "from __future__ import annotations\r\nx = 1\r\n",
        "@staticmethod\ndef decorated(): pass\n",
    ],
)
def test_what_must_come_first_stays_first(head: str, tmp_path: Path) -> None:
    source = f"{head}from bottega.runtime import cpp\nprint(cpp({PLUS_ONE}).plus_one(1))"
    exported = export_source(source)
    assert run_alone(exported, tmp_path) == "2\n"
    assert ast.get_docstring(ast.parse(exported)) == ast.get_docstring(ast.parse(source.removeprefix("\ufeff")))
    assert "bottega.runtime import" not in exported.split("End of Bottega's runtime")[1]


@pytest.mark.rotates
def test_a_model_travels_whole(tmp_path: Path) -> None:
    candidate = r'''
"""A fused kernel."""
import copy
import torch
from bottega.runtime import cpp, ArgumentError

library = cpp(r"""
extern "C" void scaled_relu(const float* x, float* y, long n, float s) {
  #pragma omp parallel for
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] * s : 0; }""")

class ModelNew(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s, self.library = s, library
    def forward(self, x):
        y = torch.empty_like(x)
        self.library.scaled_relu(x, y, x.numel(), self.s)
        return y

x = torch.randn(1000)
assert torch.equal(copy.deepcopy(ModelNew(2.0))(x), x.relu() * 2)
try:
    ModelNew(2.0)(x.double())
except ArgumentError as error:
    print("refused")
'''
    exported = export_source(candidate)
    assert run_alone(exported, tmp_path) == "refused\n"
    assert "nvrtc" not in exported  # only what is needed comes along


@pytest.mark.rotates
def test_cuda_comes_along_where_it_is_used(tmp_path: Path) -> None:
    source = """from bottega.runtime import cuda, UnavailableError, CompileError
try:
    cuda("nonsense")
except (UnavailableError, CompileError):
    print("clear")
"""
    exported = export_source(source)
    assert "nvrtcCompileProgram" in exported and run_alone(exported, tmp_path) == "clear\n"


@pytest.mark.parametrize(
    "source", ["", "import torch\n", "x = 'import bottega.runtime'  # bottega.runtime\r\n", "from .bottega import runtime\n"]
)
def test_what_does_not_use_the_runtime_comes_back_unchanged(source: str) -> None:
    assert export_source(source) == source


def test_an_exported_file_is_not_exported_again() -> None:
    exported = export_source("from bottega.runtime import cpp\n")
    assert export_source(exported) == exported


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(:\n", "line 1: the candidate does not parse"),
        ("x = '\0'", "does not parse"),
        ("import bottega.judge\n", "line 1: the candidate imports bottega.judge"),
        ("\nfrom bottega.core.task import Task\n", "line 2: the candidate imports bottega.core.task"),
        ("from bottega import __version__\n", "imports bottega.__version__"),
        ("from bottega.runtime.export import export_source\n", "imports bottega.runtime.export"),
        ("from bottega.runtime import export\n", "imports bottega.runtime.export"),
        ("from bottega.runtime import fortran\n", "imports fortran"),
        ("from bottega import *\n", r"imports bottega.\*"),
        ("import importlib\nimportlib.import_module('bottega.runtime')\n", "line 2: import_module.*import statement"),
    ],
)
def test_what_cannot_be_exported_says_why(source: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        export_source(source)
