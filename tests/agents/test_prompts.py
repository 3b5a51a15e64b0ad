"""Templates: read, checked at once, overruled file by file, and filled without looking into the values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bottega.agents import prompts as module
from bottega.agents.prompts import PLACEHOLDERS, SHIPPED, Prompts, guide_names
from bottega.core.errors import UsageError

SELECT = "At most $k.\n--- user ---\n$task\n\n$skills\n--- skill ---\n$name\n"


def values(**more: str) -> dict[str, str]:
    return {**dict.fromkeys(PLACEHOLDERS["select"]["user"], ""), **more}


@pytest.mark.parametrize("style", ["compact", "full"])
def test_what_ships_is_whole(style: Any) -> None:
    prompts = Prompts(style)
    for role, parts in PLACEHOLDERS.items():
        filled = {name: f"<{name}>" for name in parts["user"]}
        system, user = prompts.messages(role, filled)
        assert (system.role, user.role) == ("system", "user") and ("<task>" in user.content or role == "agent")
        assert "$" not in system.content + user.content
    assert all("class ModelNew" in prompts.guide(language) for language in guide_names())
    assert prompts.guide("torch") == ""


def test_compact_guides_and_full_guides_show_the_same_example() -> None:
    compact, full = Prompts("compact"), Prompts("full")
    for language in guide_names():
        assert full.guide(language).endswith(compact.guide(language)[compact.guide(language).index("```python") :])


def test_values_are_never_looked_into() -> None:
    system, user = Prompts("compact").messages("select", values(task="$skills ${k} $$ \\1 {}", skills="$task", k="3"))
    assert "$skills ${k} $$ \\1 {}" in user.content and "$task" in user.content and "at most 3" in system.content


def test_what_has_nothing_to_say_goes_with_its_heading() -> None:
    user = Prompts("compact").messages("select", values(task="T"))[1].content
    assert user == "Task:\nT"
    turn = dict.fromkeys(PLACEHOLDERS["write"]["turn"], "")
    piece = Prompts("compact").piece("write", "turn", {**turn, "title": "Attempt 1", "outcome": "timeout"})
    assert piece == "## Attempt 1\noutcome: timeout"


def test_blank_lines_of_values_stay() -> None:
    assert "a\n\n\n\nb" in Prompts("compact").messages("select", values(task="a\n\n\n\nb"))[1].content


def test_a_folder_overrules_one_file(tmp_path: Path) -> None:
    (tmp_path / "select.md").write_text("\ufeff" + SELECT.replace("\n", "\r\n"), encoding="utf-8")
    (tmp_path / "README.md").write_text("mine: $anything")
    (tmp_path / "cpp.md").write_text("use $5 C++")
    prompts = Prompts("compact", tmp_path)
    assert [m.content for m in prompts.messages("select", values(task="T", k="2"))] == ["At most 2.", "T"]
    assert prompts.guide("cpp") == "use $5 C++"
    assert prompts.guide("triton") == Prompts("compact").guide("triton")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("select.md", SELECT.replace("$k", "$kk"), ("select.md", "$kk", "known here: callgraph, device, k")),
        ("select.md", SELECT.replace("$name", "$technique"), ("select.md", "$technique")),
        ("select.md", SELECT.replace("At most", "At 5$ most"), ("select.md", "5$ most", "$$")),
        ("select.md", SELECT.replace("$task", ""), ("select.md", "$task")),
        ("select.md", SELECT.replace("--- skill ---", "--- header ---"), ("select.md", "'header'", "unknown")),
        ("select.md", SELECT + "--- user ---\nx", ("select.md", "'user'", "twice")),
        ("select.md", "At most $k: $task $skills", ("select.md", "'user'")),
        ("select.md", "", ("select.md", "'system'")),
        ("writer.md", SELECT, ("writer.md", "write.md")),
    ],
)
def test_a_wrong_file_is_named_before_anything_runs(tmp_path: Path, name: str, text: str, said: tuple[str, ...]) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        Prompts("compact", tmp_path)
    assert all(part in str(caught.value) for part in said), caught.value


def test_files_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no folder"):
        Prompts("compact", tmp_path / "nowhere")
    with pytest.raises(UsageError, match="compact, full"):
        Prompts("huge")  # type: ignore[arg-type]
    (tmp_path / "write.md").write_bytes(b"\xff\xfe$task")
    with pytest.raises(UsageError, match=r"write\.md"):
        Prompts("compact", tmp_path)
    monkeypatch.setattr(module, "SHIPPED", tmp_path / "gone")
    with pytest.raises(UsageError, match=r"select\.md.*cannot be read"):
        Prompts("compact")


def test_every_shipped_file_is_of_use() -> None:
    for style in ("compact", "full"):
        assert {path.name for path in (SHIPPED / style).iterdir()} == {f"{name}.md" for name in PLACEHOLDERS}


def test_which_prompts_have_a_place_for_a_callgraph(tmp_path: Path) -> None:
    assert all(Prompts("terse").shows(role, "callgraph") for role in ("select", "write"))
    assert not Prompts("terse").shows("summarise", "callgraph")
    assert not any(Prompts(style).shows(role, "callgraph") for style in ("compact", "full") for role in ("select", "write"))
    (tmp_path / "write.md").write_text(
        "Write.\n--- user ---\n$task\n$callgraph\n--- skill ---\n$name\n--- turn ---\n$source\n", encoding="utf-8"
    )
    assert Prompts("compact", tmp_path).shows("write", "callgraph")
