"""A fork server imports for its children what several of them would import, unless a fork would not be sound after it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottega.sandbox.fork_server import ForkServer
from bottega.sandbox.libraries import libraries_of

MODULES = {
    "quiet_library": "LOADED = __import__('os').getpid()\n",
    "threaded_library": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
    "ending_library": "import os\nos._exit(0)\n",
    "raising_library": "raise ValueError('no')\n",
    "leaving_library": "raise SystemExit('no')\n",
    "deadly_library": "import os, signal\n\nif os.getsid(0) == os.getpid():\n    os.kill(os.getpid(), signal.SIGKILL)\n",
    "says_who": "import json, os, sys\n\ndef main(fds, arguments):\n"
    "    import quiet_library\n    found = [name for name in arguments['names'] if name in sys.modules]\n"
    "    os.write(fds[0], json.dumps([found, quiet_library.LOADED != os.getpid()]).encode())\n",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    tmp_path.chmod(0o755)
    with ForkServer(
        environment={"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}, extra_readonly=[str(tmp_path)]
    ) as started:
        yield started


def found(server: ForkServer) -> tuple[list[str], bool]:
    ours, theirs = os.pipe()
    sandbox = server.spawn("says_who:main", fds=[theirs], arguments={"names": list(MODULES)})
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        told = json.loads(file.read() or b"[[], false]")
    sandbox.kill()
    return told[0], told[1]


def test_what_can_be_forked_is_there_and_the_rest_is_left_to_the_children(server: ForkServer) -> None:
    assert found(server) == (["quiet_library", "says_who"], False), "each child imports it by itself"
    for name in MODULES:
        if name not in ("says_who", "deadly_library"):
            server.import_for_children([name])
    names, earlier = found(server)
    assert earlier and names == ["quiet_library", "says_who"], "no threads, and the server is still there"
    server.import_for_children(["quiet_library", "no_such_library"])
    assert found(server)[1]


def test_what_cannot_be_imported_does_not_keep_others_from_it(server: ForkServer) -> None:
    server.import_for_children(["no_such_library", "raising_library", "quiet_library"])
    assert found(server)[1]


def test_a_server_that_is_lost_over_an_import_is_started_again_and_does_not_try_it_again(server: ForkServer) -> None:
    """It is fine in a fork, and ends the server."""
    server.import_for_children(["deadly_library"])
    assert not found(server)[1]
    server.import_for_children(["deadly_library", "quiet_library"])
    assert found(server) == (["quiet_library", "says_who"], True)


def test_a_package_that_no_fork_can_have_is_tried_once_and_the_user_is_told(
    server: ForkServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        server.import_for_children(["threaded_library", "quiet_library"])
    told = capfd.readouterr().err
    assert told.count("threaded_library") == 1 and "it leaves a thread" in told
    assert found(server)[1], "another package is imported all the same"


def test_only_packages_that_take_long_are_imported_for_all() -> None:
    source = "import os, torchvision.ops\nfrom transformers.models.llama import modeling_llama\nfrom .transformers import x\nimport transformers2\n"
    assert libraries_of(source) == ["torchvision.ops", "transformers.models.llama"]
    assert libraries_of("def broken(:") == []
