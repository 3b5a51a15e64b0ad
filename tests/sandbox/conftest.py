"""One fork server for all tests of the sandbox, with `sandbox_entries` and `working_entries` importable inside the sandboxes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bottega.core.errors import SandboxError
from bottega.sandbox.fork_server import ForkServer, SandboxExit

HERE = str(Path(__file__).parent)


class Sandboxes:
    """Runs an entry (of `sandbox_entries`, unless it names its module) and reads what it said."""

    def __init__(self, server: ForkServer) -> None:
        self.server = server

    def start(self, entry: str, fds=(), **options):
        reader, writer = os.pipe()
        try:
            sandbox = self.server.spawn(entry if ":" in entry else f"sandbox_entries:{entry}", fds=(writer, *fds), **options)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return sandbox, os.fdopen(reader, "rb")

    def run(self, entry: str, timeout: float = 60, **options) -> tuple[dict, SandboxExit]:
        sandbox, said = self.start(entry, **options)
        with said:
            ended = sandbox.wait(timeout)
            sandbox.kill()
            assert ended is not None, "the sandbox still runs"
            line = said.readline()
        assert line, ended
        return json.loads(line), ended


@pytest.fixture(scope="session")
def server():
    with ForkServer(environment={"PYTHONPATH": HERE}, preload=("numpy", "torch")) as running:
        yield running


@pytest.fixture(scope="session")
def sandboxes(server):
    return Sandboxes(server)


@pytest.fixture(scope="session")
def signalled_sandboxes():
    """As on a machine that has no freezer for us."""
    with ForkServer(environment={"PYTHONPATH": HERE}, preload=("numpy", "torch"), freezer=False) as running:
        yield Sandboxes(running)


@pytest.fixture(scope="session")
def user_sandboxes():
    """As for a user who is not root. The sandbox's own tests say what a machine that refuses it gets."""
    try:
        with ForkServer(environment={"PYTHONPATH": HERE}, preload=("numpy", "torch"), modes=("user",)) as running:
            yield Sandboxes(running)
    except SandboxError as error:
        pytest.skip(f"no user name spaces: {error}")


@pytest.fixture(scope="session")
def bare_sandboxes():
    """As on a machine that refuses every name space."""
    with ForkServer(environment={"PYTHONPATH": HERE}, preload=("numpy", "torch"), modes=("bare",)) as running:
        yield Sandboxes(running)
