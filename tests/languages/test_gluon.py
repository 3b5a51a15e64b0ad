"""Gluon came as one file: it is recognised, explained in prompts, and its kernels are guarded as every other language's are.

Its kernels are judged by `tests/honest/test_cuda.py` and `tests/attacks/test_cuda.py`, which need a GPU.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from corpus import TESTS, load_task, read

from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.core.verdict import Outcome
from bottega.judge.coverage import claimed_kernels, gpu_coverage
from bottega.judge.decide import decide
from bottega.judge.settings import Settings
from bottega.languages import candidate_from, choose_language, detect_language, language_named

KERNELS = {"gluon_relu": "relu_blocks", "gluon_softmax": "softmax_rows"}
GPU = DeviceFacts("cuda", "NVIDIA H200", "sm_90", 132, 141.0)


def source(name: str, folder: str = "honest") -> str:
    return (TESTS / folder / "cuda" / f"{name}.py").read_text()


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_recognised_and_its_kernels_are_named(name: str) -> None:
    assert detect_language(source(name)) == "gluon"
    assert claimed_kernels(source(name), "gluon") == (KERNELS[name],)


@pytest.mark.parametrize(
    "text",
    [
        "from triton.experimental.gluon import language as gl",
        "import triton.experimental.gluon as g",
        "from triton.experimental import gluon",
        "import triton\n\n@gluon.jit\ndef kernel(): pass",
    ],
)
def test_every_way_to_import_it_is_known(text: str) -> None:
    assert detect_language(text) == "gluon"


def test_the_word_alone_is_not_the_language() -> None:
    assert detect_language("# not gluon\nimport triton") == "triton"
    assert detect_language("gluon = 1\nclass ModelNew: pass") == "torch"


def test_prompts_name_it_and_show_its_example() -> None:
    task = read(TESTS / "honest" / "cuda" / "gluon_relu.py").task
    system, _ = messages(WriterInput(task, "gluon", GPU), Prompts("full"))
    assert "own Gluon kernels" in system.content and "@gluon.jit" in system.content and "gl.BlockedLayout" in system.content
    assert detect_language(language_named("gluon").example) == "gluon"


def test_own_kernels_count_and_a_decoy_is_rejected() -> None:
    own = gpu_coverage([["softmax_rows", 30.0, 1]], source("gluon_softmax"), ("softmax_rows",))
    assert own.share is not None and own.share > 0.9
    decoy = candidate_from(source("decoy_gluon_kernel", "attacks"))
    share = gpu_coverage(
        [["softmax_warp_forward", 60.0, 1], ["touch", 1.4, 1]], decoy.source, claimed_kernels(decoy.source, "gluon")
    )
    found = {"coverage": share.to_json(), "trials": [{"skipped": False, "problem": "", "errors": [], "variant": "plain"}]}
    task = load_task("gpu_softmax")
    verdict = decide(task, decoy, Settings("cuda"), found)
    assert verdict.outcome is Outcome.REJECTED
    assert [violation.name for violation in verdict.violations] == ["decoy_kernel"]
    assert decide(task, replace(decoy, language="torch"), Settings("cuda"), found).outcome is not Outcome.REJECTED


def test_it_runs_on_gpus_only_and_the_compiler_does_not_write_it() -> None:
    with pytest.raises(UsageError, match="cannot be timed on cpu; use language=cpp, or --device cuda"):
        choose_language("gluon", "cpu")
    assert choose_language("gluon", "cuda:1") == "gluon"
    assert not language_named("gluon").compiler


def test_nothing_else_mentions_it() -> None:
    package = Path(importlib.util.find_spec("bottega").origin).parent  # type: ignore[union-attr, arg-type]
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if "gluon" in path.read_text().lower()}
    assert found == {"languages/gluon.py", "languages/registry.py"}


COMPILING = """
import importlib.util, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
spec = importlib.util.spec_from_file_location("kernels", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
kernel = getattr(module, sys.argv[2])
given = {"BLOCK": 1024, "num_warps": 4}
signature = {p.name: "constexpr" if p.is_constexpr else "i32" if p.name in ("count", "columns") else "*fp32" for p in kernel.params}
constants = {(number,): given[p.name] for number, p in enumerate(kernel.params) if p.is_constexpr}
made = triton.compile(GluonASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
print(made.metadata.name, ".entry " + sys.argv[2] in made.asm["ptx"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KERNELS, "example"])
def test_its_kernels_compile_for_a_hopper_gpu_without_one(name: str, tmp_path: Path) -> None:
    """Under their own names, by which coverage knows them."""
    pytest.importorskip("triton.experimental.gluon")
    path = tmp_path / "kernels.py"
    path.write_text(language_named("gluon").example if name == "example" else source(name))
    kernel = KERNELS.get(name, "relu_gain")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILING, str(path), kernel],
        env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache"), "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [kernel, "True"], done.stderr[-2000:]
