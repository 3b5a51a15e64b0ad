"""The directory of an agent: what is given stays as it is, and no path leads out of it."""

from __future__ import annotations

import pytest

from bottega.episodes.agent_files import LONGEST_FILE, MOST_FILES, SHOWN, TOLD, AgentFiles, ToolError


def directory() -> AgentFiles:
    return AgentFiles({"task.py": "task", "check.py": "check", "skills/a/SKILL.md": "a skill"}, {"kernel.py": "one\ntwo\n"})


@pytest.mark.parametrize(
    "path", ["task.py", "./task.py", "check.py", "skills/a/SKILL.md", "skills/new.md", "skills", "skills/a"]
)
def test_what_is_given_cannot_be_changed(path: str) -> None:
    files = directory()
    with pytest.raises(ToolError, match="protected"):
        files.write(path, "mine")
    with pytest.raises(ToolError, match="protected"):
        files.edit(path, "task", "mine")
    assert files.all == directory().all


def test_nor_by_a_program_that_left_it_changed() -> None:
    files = directory()
    assert files.take({"task.py": "mine", "kernel.py": "three", "notes/x.txt": "y", "../out": "z"}) == [
        "not kept: ../out: is no path within the directory",
        "not kept: task.py: is protected and cannot be changed",
    ]
    assert files.all["task.py"] == "task" and files.own == {"kernel.py": "three", "notes/x.txt": "y"}


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".", "x" * 200, "a\x00b"])
def test_no_path_leads_out(path: str) -> None:
    with pytest.raises(ToolError):
        directory().write(path, "x")


def test_files_that_are_not_taken_are_told_and_not_all_of_them() -> None:
    """A program may leave thousands: they would fill the conversation."""
    told = directory().take({f"{number:05}.txt": "x" for number in range(5_000)})
    assert len(told) == TOLD + 1
    assert told[0].endswith(f"the directory holds {MOST_FILES} files, and no more")
    assert told[-1] == f"not kept: {5_000 - (MOST_FILES - 1) - TOLD} more files"


@pytest.mark.parametrize("path", ["kernel.py/x", "task.py/x/y"])
def test_a_file_is_no_folder(path: str) -> None:
    """Laid out in a sandbox, no program would run any more."""
    with pytest.raises(ToolError, match="is a file"):
        directory().write(path, "x")


def test_a_program_is_named_as_a_file_is() -> None:
    assert directory().inside("./check.py ") == "check.py"
    with pytest.raises(ToolError, match="no such file"):
        directory().inside("other.py")


def test_reading_files_and_folders() -> None:
    files = directory()
    assert files.read("kernel.py") == "one\ntwo\n"
    assert files.read(".").splitlines() == [
        "check.py (protected)",
        "kernel.py",
        "skills/a/SKILL.md (protected)",
        "task.py (protected)",
    ]
    assert files.read("skills") == "skills/a/SKILL.md (protected)"
    with pytest.raises(ToolError, match="no such file"):
        files.read("nothing.py")
    files.write("long.txt", "x" * (SHOWN + 5))
    assert files.read("long.txt").endswith("(5 more characters)")


def test_an_edit_needs_a_text_that_is_there_once() -> None:
    files = directory()
    files.edit("kernel.py", "one", "1")
    assert files.own["kernel.py"] == "1\ntwo\n"
    for old in ("one", "", "\n"):
        with pytest.raises(ToolError, match="times"):
            files.edit("kernel.py", old, "x")


def test_a_directory_has_bounds() -> None:
    files = directory()
    with pytest.raises(ToolError):
        files.write("big.txt", "x" * (LONGEST_FILE + 1))
    for number in range(MOST_FILES - 1):
        files.write(f"n{number}", "")
    with pytest.raises(ToolError, match="no more"):
        files.write("one_more", "")
