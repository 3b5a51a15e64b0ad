from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bottega.app.device_host import device_host
from bottega.cluster.address import ClusterAddress
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
