"""Programs of an agent in a real sandbox: no network, no files of the host, an end in time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from episodes.agent_search import TASK, kernel, own_lease

from bottega.episodes.agent_sandbox import BUILD, CHECK, AgentSandbox, _changed, _texts
from bottega.episodes.agent_tools import given_files

pytestmark = pytest.mark.usefixtures("own_lease")
__all__ = ["own_lease"]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[AgentSandbox]:
    found = AgentSandbox("cpu")
    yield found
    found.close()


def run(sandbox: AgentSandbox, program: str, seconds: float = 60.0, **files: str) -> tuple[str, dict[str, str]]:
    own = {f"{name}.py": text for name, text in files.items()}
    found = sandbox.run({**given_files(TASK.source), **own}, program, seconds)
    return found.output, found.changed


@pytest.mark.rotates
def test_a_kernel_is_built_and_checked(sandbox: AgentSandbox) -> None:
    assert "built and called" in run(sandbox, BUILD, kernel=kernel(1.0))[0]
    assert "close to the task's own result" in run(sandbox, CHECK, kernel=kernel(1.0))[0]
    wrong, _ = run(sandbox, CHECK, kernel=kernel(1.0, added=3))
    assert "AssertionError" in wrong and "code 1" in wrong and 'File "check.py"' in wrong
    broken, _ = run(sandbox, BUILD, kernel="import torch\nclass ModelNew(torch.nn.Module)\n    pass\n")
    assert "SyntaxError" in broken


def test_a_program_has_nothing_of_the_host(sandbox: AgentSandbox) -> None:
    steal = """
import os, pathlib, socket
for what in (lambda: socket.create_connection(("127.0.0.1", 80), 1), lambda: pathlib.Path("/usr/x").write_text("x"),
             lambda: os.listdir("/home")):
    try:
        what()
        print("got it")
    except OSError as error:
        print("refused")
print("secret" in os.environ)
"""
    output, changed = run(sandbox, "steal.py", steal=steal)
    assert output.count("refused") >= 2 and "got it" not in output and not changed


@pytest.mark.rotates
def test_what_a_program_leaves_comes_back_and_one_that_hangs_is_stopped(sandbox: AgentSandbox) -> None:
    output, changed = run(
        sandbox, "leave.py", leave="open('a.txt', 'w').write('b')\nopen('c.bin', 'wb').write(b'\\xff')\nprint('ok')"
    )
    assert "ok" in output and changed == {"a.txt": "b"}
    output, changed = run(sandbox, "hang.py", 3.0, hang="print('begun', flush=True)\nwhile True: pass\n")
    assert "begun" in output and "did not end within 3 s" in output and not changed
    assert "code 7" in run(sandbox, "leave.py", leave="import os\nos._exit(7)")[0]


@pytest.mark.gpu
def test_a_kernel_is_built_and_checked_on_a_gpu() -> None:
    source = """import torch
import triton
import triton.language as tl


@triton.jit
def relu_plus_one(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0.0) + 1, i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_plus_one[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""
    found = AgentSandbox("cuda")
    try:
        assert "built and called" in run(found, BUILD, kernel=source)[0]
        assert "close to the task's own result" in run(found, CHECK, kernel=source)[0]
    finally:
        found.close()


def test_what_comes_back_is_text_or_nothing() -> None:
    sent = {"kernel.py": "\ud800x", "a\ud800": "y", "b.py": 5, "ok.py": "é \U0001f600", 7: "z"}
    assert _texts(sent) == {"ok.py": "é \U0001f600"} and _texts([1]) == {} and _texts(None) == {}


def test_folders_that_are_nested_without_end_are_left(tmp_path: Path) -> None:
    """And what is linked, hidden behind permissions, or as it was."""
    (tmp_path / "sub").mkdir()
    for name, text in {"kept.py": "a", "sub/new.py": "b", "same.py": "c"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link.py").symlink_to("/etc/hostname")
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert _changed(tmp_path, {"same.py": "c"}) == {"kept.py": "a", "sub/new.py": "b"}
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # pytest's own removal recurses
