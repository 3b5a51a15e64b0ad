from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from bottega.app.cli import app
from bottega.app.device_host import device_host
from bottega.cluster.address import ClusterAddress, join
from bottega.core.errors import UsageError


def test_an_address_may_choose_in_the_cluster() -> None:
    assert ClusterAddress.read("auto") == ClusterAddress("auto", "", 4)
    assert ClusterAddress.read("ray://head:10001?make=H100&cores=8") == ClusterAddress("ray://head:10001", "H100", 8)
    for wrong, told in (("auto?makes=x", "not makes"), ("auto?cores=0", "no number"), ("?make=x", "needs auto")):
        with pytest.raises(UsageError, match=told):
            ClusterAddress.read(wrong)


def test_a_server_and_a_cluster_are_two_places() -> None:
    with pytest.raises(UsageError, match="one of them"), device_host("http://127.0.0.1:1", "auto"):
        pass


@pytest.mark.rotates
def test_without_a_cluster_nothing_of_ray_is_imported(tmp_path: Path) -> None:
    """A whole bench, in a process of its own; the kernel is refused before anything has to be built."""
    (tmp_path / "star_relu.py").write_text("")
    code = (
        "import sys\nfrom typer.testing import CliRunner\nimport bottega.app.cli\nfrom bottega.app.bench_command import app\n"
        f"ran = CliRunner().invoke(app, ['builtin:star_relu', '--candidates', {str(tmp_path)!r}, '--out', {str(tmp_path / 'run')!r}])\n"
        "assert ran.exit_code == 0, (ran.output, ran.exception)\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'ray' or name.startswith('bottega.cluster')])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr


@pytest.mark.rotates
def test_without_ray_it_is_said_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['ray'] = None\nfrom bottega.cluster.judges import ClusterDevices\n"
        "try:\n    ClusterDevices('auto')\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "UsageError --cluster needs Ray: pip install 'bottega[cluster]'", ran.stderr


@dataclass
class RecordedRay:
    """Stands for Ray where one of `ray start` is there, or is not, or has died; `auto` would be anybody's."""

    there: bool = False
    dead: bool = False
    begun: list[tuple[str | None, bool]] = field(default_factory=list)
    """Address, and whether with memory of its own."""

    def is_initialized(self) -> bool:
        return False

    def init(self, address: str | None, object_store_memory: int | None = None, **_: object) -> None:
        found = self.there or bool(os.environ.get("RAY_ADDRESS"))
        if address is None and found and object_store_memory is not None:
            raise ValueError("When connecting to an existing cluster, object_store_memory must not be provided.")
        self.begun.append((address, object_store_memory is not None))
        if address is None and found and self.dead:
            raise ConnectionError("Failed to connect to Ray cluster")


@pytest.mark.parametrize(
    ("ray", "begun"),
    [
        (RecordedRay(), [(None, True)]),
        (RecordedRay(there=True), [(None, False)]),
        (RecordedRay(there=True, dead=True), [(None, False), ("local", True)]),
    ],
    ids=["none", "of ray start", "died"],
)
def test_auto_takes_the_cluster_of_ray_start_and_no_other_command_s(
    ray: RecordedRay, begun: list[tuple[str | None, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bottega.cluster.address.imported", lambda: ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert join("auto") and ray.begun == begun


def test_auto_does_not_judge_here_when_the_cluster_it_is_told_of_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bottega.cluster.address.imported", lambda: RecordedRay(dead=True))
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(UsageError, match="RAY_ADDRESS=head:6379"):
        join("auto")


def test_a_connection_that_is_lost_begins_no_other_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `ray://`: whatever asked Ray next had it begin one of this machine."""
    hook = SimpleNamespace(enable_auto_connect=True)
    monkeypatch.setattr("bottega.cluster.address.imported", RecordedRay)
    monkeypatch.setattr("bottega.cluster.address._inside", lambda module, name: hook if name == "enable_auto_connect" else None)
    assert join("ray://head:10001") and not hook.enable_auto_connect
    hooks = pytest.importorskip("ray._private.auto_init_hook", reason="needs Ray: pip install 'bottega[cluster]'")
    assert hasattr(hooks, "enable_auto_connect"), "Ray calls it otherwise now"


def test_a_cluster_that_is_named_is_shown_the_token_that_this_user_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ray start --head` asks for it where there is one; Ray's own `init` does not show it, and tries for 20 s."""
    shown: list[bool] = []
    setup = SimpleNamespace(
        logger=logging.getLogger("test"), maybe_enable_token_auth_if_token_available=lambda **given: shown.append(True)
    )
    monkeypatch.setattr("bottega.cluster.address.imported", RecordedRay)
    monkeypatch.setattr("bottega.cluster.address._inside", lambda module, name: setup if "token" in module else None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert join("local") and join("auto") and not shown, "of these Ray takes care itself"
    assert join("head:6379") and join("ray://head:10001") and len(shown) == 2


@pytest.mark.rotates
def test_a_command_that_is_refused_starts_no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = RecordedRay()
    monkeypatch.setattr("bottega.cluster.judges.imported", lambda: ray)
    monkeypatch.setattr("bottega.cluster.address.imported", lambda: ray)
    (tmp_path / "events.jsonl").write_text("{}\n")
    refused = {
        "no such built-in task": ["data", "build", "builtin:nothing", "--out", str(tmp_path / "data")],
        "no such file": ["optimize", str(tmp_path / "nothing.py"), "--out", str(tmp_path / "other")],
        "holds a run already": ["train", "--out", str(tmp_path), "model.device=cpu"],
    }
    for told, command in refused.items():
        with pytest.raises(UsageError, match=told):
            CliRunner().invoke(app, [*command, "--cluster", "auto"], catch_exceptions=False)
    assert not ray.begun
