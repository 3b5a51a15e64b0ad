"""One fork server for all tests of the sandbox, with `sandbox_entries` and `working_entries` importable inside the cells."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bottega.core.errors import SandboxError
from bottega.sandbox.fork_server import CellExit, ForkServer

HERE = str(Path(__file__).parent)


class Cells:
    """Runs an entry (of `sandbox_entries`, unless it names its module) and reads what it said."""

    def __init__(self, server: ForkServer) -> None:
        self.server = server

    def start(self, entry: str, fds=(), **options):
        reader, writer = os.pipe()
        try:
            cell = self.server.spawn(entry if ":" in entry else f"sandbox_entries:{entry}", fds=(writer, *fds), **options)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return cell, os.fdopen(reader, "rb")

    def run(self, entry: str, timeout: float = 60, **options) -> tuple[dict, CellExit]:
        cell, said = self.start(entry, **options)
        with said:
            ended = cell.wait(timeout)
            cell.kill()
            assert ended is not None, "the cell still runs"
            line = said.readline()
        assert line, ended
        return json.loads(line), ended


@pytest.fixture(scope="session")
def server():
    with ForkServer(environment={"PYTHONPATH": HERE}) as running:
        yield running


@pytest.fixture(scope="session")
def cells(server):
    return Cells(server)


@pytest.fixture(scope="session")
def signalled_cells():
    """As on a machine that has no freezer for us."""
    with ForkServer(environment={"PYTHONPATH": HERE}, freezer=False) as running:
        yield Cells(running)


@pytest.fixture(scope="session")
def user_cells():
    """As for a user who is not root. The sandbox's own tests say what a machine that refuses it gets."""
    try:
        with ForkServer(environment={"PYTHONPATH": HERE}, modes=("user",)) as running:
            yield Cells(running)
    except SandboxError as error:
        pytest.skip(f"no user name spaces: {error}")


@pytest.fixture(scope="session")
def bare_cells():
    """As on a machine that refuses every name space."""
    with ForkServer(environment={"PYTHONPATH": HERE}, modes=("bare",)) as running:
        yield Cells(running)
