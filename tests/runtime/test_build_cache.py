"""The build folder: one build per content, whole files only, whatever happens to builders and files."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from bottega.runtime import UnavailableError, cpp
from bottega.runtime.cache import build_folder, build_once

SOURCE = 'extern "C" int f() { return 42; }'


def libraries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.so"))


def test_the_same_content_is_built_once(build_dir: Path) -> None:
    cpp(SOURCE)
    (first,) = libraries(build_dir)
    before = first.stat()
    cpp(SOURCE)
    assert libraries(build_dir) == [first] and first.stat().st_mtime_ns == before.st_mtime_ns
    cpp(SOURCE, flags=("-O1",))
    cpp(SOURCE + " ")
    assert len(libraries(build_dir)) == 3
    assert not list(build_dir.glob(".work-*"))


@pytest.mark.parametrize(
    "damage", [lambda p: p.write_bytes(b""), lambda p: p.write_bytes(p.read_bytes()[:100]), lambda p: p.unlink()]
)
def test_a_damaged_file_is_built_again(build_dir: Path, damage) -> None:
    script = f"from bottega.runtime import cpp; print(cpp({SOURCE!r}).f())"
    run = [sys.executable, "-c", script]
    assert subprocess.check_output(run) == b"42\n"
    (built,) = libraries(build_dir)
    whole = built.read_bytes()
    damage(built)
    assert subprocess.check_output(run) == b"42\n"
    assert [path.read_bytes() for path in libraries(build_dir)] == [whole]


def test_concurrent_builders_all_get_a_whole_file(build_dir: Path) -> None:
    script = f"from bottega.runtime import cpp; print(cpp({SOURCE!r}).f())"
    running = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate()[0] for process in running] == [b"42\n"] * 4


def test_a_killed_builder_leaves_nothing_that_looks_finished(build_dir: Path) -> None:
    script = textwrap.dedent("""
        import sys, time
        from bottega.runtime.cache import build_once
        def build(folder):
            (folder / "half").write_bytes(b"half")
            print("building", flush=True)
            time.sleep(60)
        build_once(["x"], ".bin", build)
    """)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"building\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (left,) = build_dir.glob(".work-*")

    def build(folder: Path) -> Path:
        (folder / "whole").write_bytes(b"whole")
        return folder / "whole"

    assert build_once(["x"], ".bin", build).read_bytes() == b"whole"
    assert left.exists()  # it may still belong to someone
    old = time.time() - 7200
    os.utime(left, (old, old))
    build_once(["y"], ".bin", build)
    assert not left.exists()


def test_without_a_setting_the_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOTTEGA_BUILD_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = build_folder()
    assert folder.parent == tmp_path and stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)  # anyone may write: code is not loaded from there
    assert build_folder() != folder
    folder.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    assert build_folder() != folder


def test_an_unusable_folder_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BOTTEGA_BUILD_DIR", str(tmp_path / "file"))
    with pytest.raises(UnavailableError, match="set BOTTEGA_BUILD_DIR to a writable folder"):
        cpp(SOURCE)
