"""Runs programs of an agent's directory in a sandbox of their own: the same isolation, device and compilers that a candidate has at the judge.

Each program finds the directory as it is, in a scratch folder that goes with the sandbox. Text files that it leaves come back, unless they are
protected. Nothing that it prints or leaves is part of a verdict.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import runpy
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottega.episodes.agent_files import LONGEST_PATH
from bottega.judge.machine import Machine, end_sandboxes, holding_lease, start_machine
from bottega.judge.settings import Settings
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, ProtocolError, channel_pair

ENTRY = "bottega.episodes.agent_sandbox:main"
SECONDS = 60.0
"""That a program may take."""
MOST_RETURNED = 256_000
"""Bytes of files that come back."""
BUILD = "build"
CHECK = "check.py"
CHECK_SOURCE = '''"""Compares kernel.py with task.py once. The judge looks more closely, at inputs that nobody sees before."""

import torch

import kernel
import task

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


def moved(value):
    return value.to(device) if isinstance(value, torch.Tensor) else value


initial = task.get_init_inputs()
reference = task.Model(*initial).to(device)
candidate = kernel.ModelNew(*initial).to(device)
candidate.load_state_dict(reference.state_dict())
inputs = [moved(value) for value in task.get_inputs()]
with torch.no_grad():
    expected = reference(*[value.clone() if isinstance(value, torch.Tensor) else value for value in inputs])
    found = candidate(*inputs)
torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
print("close to the task's own result")
'''


@dataclass(frozen=True)
class ProgramResult:
    output: str
    """The end of what it printed, and how it ended. Untrusted text."""
    changed: dict[str, str]


class AgentSandbox:
    """Thread-safe; every program has a process tree of its own."""

    def __init__(self, device: str) -> None:
        on_gpu = device != "cpu" and os.path.exists("/dev/nvidiactl")
        self.machine: Machine = start_machine(Settings(device=device if on_gpu else "cpu"), require_sandbox=False)

    def run(self, files: Mapping[str, str], program: str, seconds: float = SECONDS) -> ProgramResult:
        """`program`: a path in the directory, or `build`. It shares the device, so that nothing is timed beside it."""
        with holding_lease(self.machine, "shared"):
            return self._run(files, program, seconds)

    def close(self) -> None:
        self.machine.server.close()

    def _run(self, files: Mapping[str, str], program: str, seconds: float) -> ProgramResult:
        ours, theirs = channel_pair()
        begun = time.monotonic()
        with ours:
            try:
                sandbox = self.machine.server.spawn(
                    ENTRY,
                    fds=[theirs.fileno()],
                    arguments={"files": dict(files), "program": program},
                    limits=self.machine.limits,
                    environment=self.machine.environment,
                )
            finally:
                theirs.close()
            changed, late = {}, False
            try:
                changed = _texts(Channel(ours, takes_descriptors=False).receive(begun + seconds).get("changed"))
            except DeadlinePassed:
                late = True
            except (ChannelClosed, ProtocolError):
                pass
            ended = None if late else sandbox.wait(max(1.0, begun + seconds - time.monotonic()))
            sandbox.kill() if self.machine.device == "cpu" else end_sandboxes(self.machine, [sandbox], at_once=True)
            ended = ended or sandbox.wait(1.0)
            sandbox.control.close()
        output = ended.output.strip() if ended is not None else ""
        taken = time.monotonic() - begun
        if late or ended is None:
            return ProgramResult(f"{output}\nIt did not end within {seconds:g} s and was stopped.".lstrip(), changed)
        how = "" if ended.code == 0 else f" with code {ended.code}" if ended.signal is None else f" by signal {ended.signal}"
        reason = f" ({ended.reason})" if ended.reason not in ("exited", "signalled") else ""
        return ProgramResult(f"{output}\nIt ended{how}{reason} after {taken:.1f} s.".lstrip(), changed)


@functools.cache
def shared_sandbox(device: str) -> AgentSandbox:
    """One for each device of the process."""
    sandbox = AgentSandbox(device)
    atexit.register(sandbox.close)
    return sandbox


def _texts(value: object) -> dict[str, str]:
    """What came back, as far as it is files of text: the program may have sent anything."""
    if not isinstance(value, dict):
        return {}
    return {path: text for path, text in value.items() if _is_text(path) and _is_text(text)}


def _is_text(value: object) -> bool:
    """Whether it can be written to a file and given to a model: JSON may hold halves of a character."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """In the sandbox: lay the directory out, run the program, send back what it left."""
    folder = Path(os.environ["HOME"]) / "work"
    for path, text in arguments["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", errors="replace")
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    code = 0
    try:
        _build() if arguments["program"] == BUILD else runpy.run_path(str(folder / arguments["program"]), run_name="__main__")
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as error:
        _print_error(error, str(folder))
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(ChannelClosed):
        Channel.from_descriptor(descriptors[0]).send({"changed": _changed(folder, arguments["files"])})
    sys.exit(code)


def _build() -> None:
    """Compilers run at the first call, so there is one."""
    import importlib

    import torch

    begun = time.monotonic()
    task, kernel = importlib.import_module("task"), importlib.import_module("kernel")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module = kernel.ModelNew(*task.get_init_inputs()).to(device)
    inputs = [value.to(device) if isinstance(value, torch.Tensor) else value for value in task.get_inputs()]
    with torch.no_grad():
        module(*inputs)
    if device != "cpu":
        torch.cuda.synchronize()
    print(f"kernel.py was built and called in {time.monotonic() - begun:.1f} s")


def _print_error(error: BaseException, folder: str) -> None:
    """The traceback without our own frames."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((place for place, frame in enumerate(frames) if frame.filename.startswith(folder)), len(frames))
    sys.stdout.flush()
    text = "".join(traceback.format_list(frames[first:]) + traceback.format_exception_only(error))
    print(text.replace(f"{folder}/", ""), file=sys.stderr)


def _changed(folder: Path, before: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    room = MOST_RETURNED
    for name in _files_of(folder):
        path = folder / name
        try:
            text = path.read_text(encoding="utf-8") if path.stat().st_size <= room else None
        except (OSError, UnicodeDecodeError):
            continue
        if text is not None and before.get(name) != text:
            found[name], room = text, room - len(text.encode())
    return found


def _files_of(folder: Path) -> list[str]:
    """Plain files by their names inside, those alone whose names are short enough to be kept: folders may be nested without end."""
    found, pending = [], [""]
    while pending:
        inside = pending.pop()
        with contextlib.suppress(OSError), os.scandir(folder / inside) as entries:
            for entry in entries:
                name = f"{inside}{entry.name}"
                if entry.is_file(follow_symlinks=False):
                    found.append(name)
                elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__" and len(name) < LONGEST_PATH:
                    pending.append(f"{name}/")
    return sorted(found)
