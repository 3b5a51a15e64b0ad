"""A worker tells when it compiles in the middle of a call: once for each kernel, and only there."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bottega.judge.compile_notice import CompileNotice


@pytest.fixture
def said() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def compiling(said: list[dict[str, Any]]) -> CompileNotice:
    return CompileNotice(said.append, lambda: said.append({"heard": True}) or {})


def test_before_and_after_and_then_it_waits(compiling: CompileNotice, said: list[dict[str, Any]]) -> None:
    compiling.begin(7)
    for _ in range(2):
        with compiling.told():
            said.append({"work": True})
    once = [{"compiling": 7}, {"work": True}, {"compiled": 7}, {"heard": True}]
    assert said == once * 2


def test_a_kernel_that_does_not_compile_is_told_like_any_other(compiling: CompileNotice, said: list[dict[str, Any]]) -> None:
    compiling.begin(7)
    with pytest.raises(SyntaxError), compiling.told():
        raise SyntaxError
    assert said == [{"compiling": 7}, {"compiled": 7}, {"heard": True}]


def test_one_kernel_inside_another_is_told_once(compiling: CompileNotice, said: list[dict[str, Any]]) -> None:
    compiling.begin(7)
    with compiling.told(), compiling.told():
        pass
    assert said == [{"compiling": 7}, {"compiled": 7}, {"heard": True}]


def test_outside_a_call_and_in_other_threads_nothing_is_told(compiling: CompileNotice, said: list[dict[str, Any]]) -> None:
    with compiling.told():
        pass
    compiling.begin(7)

    def elsewhere() -> None:
        with compiling.told():
            pass

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    compiling.end()
    with compiling.told():
        pass
    assert said == []
