"""An answer as text: reasoning is cut off, and prose becomes one line."""

from __future__ import annotations

from bottega.agents.answers.answer import answer_text, one_line


def test_reasoning_goes() -> None:
    assert answer_text("<think>a</think>b<Think>c") == "b<Think>c"
    assert answer_text("b\n  <THINK>c") == "b"
    assert answer_text("a </think> b </think> c") == "c"
    assert answer_text("x = '<think>'") == "x = '<think>'"
    assert answer_text("\ufeffa\r\nb\rc") == "a\nb\nc"


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\n b\t c ", 100) == "a b c"
    assert one_line("word " * 100, 20) == "word word word …"
    assert all(len(one_line("x" * 100, longest)) <= longest for longest in range(3, 50))
