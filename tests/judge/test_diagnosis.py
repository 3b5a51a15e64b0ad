"""The diagnosis names the first thing that is wrong and where, or how fast it is; it is short and fit for a terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bottega.core.task import Task
from bottega.judge.coverage import gpu_coverage
from bottega.judge.decide import decide
from bottega.judge.diagnosis import ADVICE, LINES, first_errors, printable
from bottega.judge.settings import Settings
from bottega.languages import candidate_from

TASK = Task("class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n")


def diagnosis(source: str = "class ModelNew: pass", ending: dict[str, Any] | None = None, **found: Any) -> str:
    settings = found.pop("settings", Settings())
    examination = {"trials": [], "violations": [], "stages": {}, "notes": [], "facts": {}, **found}
    return decide(TASK, candidate_from(source), settings, examination, ending).diagnosis


COMPILER = """\
In file included from kernel.cpp:1:
/usr/include/c++/12/cmath:47: note: something
note: something
note: something
note: something
note: something
note: something
note: something
note: something
note: something
note: something
kernel.cpp:12:5: error: 'foo' was not declared in this scope
   12 |     foo(x);
      |     ^~~
note: more
note: more
kernel.cpp:14:1: error: expected '}'
cc1plus: all warnings being treated as errors
ninja: build stopped
"""


def test_the_compiler_s_first_errors_with_their_lines() -> None:
    told = first_errors(COMPILER)
    assert "12:5: error: 'foo' was not declared" in told
    assert "14:1: error: expected '}'" in told
    assert "note: something" not in told
    assert len(told.splitlines()) <= LINES


def test_a_short_text_stays_as_it_is_and_a_long_one_keeps_both_ends() -> None:
    assert first_errors("one\n\ntwo  \n") == "one\ntwo"
    told = first_errors("\n".join(f"line {n}" for n in range(100)))
    assert "line 0" in told
    assert "line 99" in told
    assert len(told.splitlines()) <= LINES


def test_long_lines_are_cut() -> None:
    assert len(first_errors("x" * 10_000)) <= 240


def test_a_failure_is_told_with_stage_kind_and_place() -> None:
    failure = {
        "kind": "failure",
        "stage": "forward",
        "type": "ValueError",
        "text": "bad shape",
        "where": ["line 3, in forward: return f(x)", "line 9, in f: raise ValueError"],
    }
    told = diagnosis(failure=failure)
    assert told.splitlines()[0] == "While calling forward: ValueError: bad shape"
    assert "line 9, in f: raise ValueError" in told


@pytest.mark.parametrize(
    "failure",
    [
        {"where": 5},
        {"where": None},
        {"where": {"a": 1}},
        {"text": None},
        {"text": ["a"]},
        {"type": None},
        {"stage": ["forward"]},
        {"stage": {}},
        {"compiling": "yes"},
    ],
    ids=str,
)
def test_a_malformed_failure_is_still_told(failure: dict[str, Any]) -> None:
    """The failure comes out of the candidate's process as any JSON."""
    assert diagnosis(failure={"kind": "failure", "stage": "forward", "type": "X", "text": "y", **failure})


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ({"signal": 11}, "a segmentation fault"),
        ({"signal": 6}, "an abort"),
        ({"signal": 35}, "signal 35"),
        ({"code": 3}, "exited by itself with code 3"),
        ({"code": 0}, "exited by itself with code 0"),
        ({"reason": "memory", "signal": 9}, "more memory than they may"),
        ({}, "ended before it answered"),
        ({"signal": 6, "output": "terminate called\nwhat(): bad\n"}, "what(): bad"),
    ],
)
def test_an_end_is_told(ending: dict[str, Any], words: str) -> None:
    assert words in diagnosis(failure={"kind": "died", "text": ""}, ending=ending)


def test_a_timeout_names_the_seconds() -> None:
    assert "within 7 s" in diagnosis(failure={"kind": "timeout", "text": ""}, settings=Settings(timeout=7))


def wrong(problem: str) -> dict[str, Any]:
    return {"problem": problem, "trials": [{"variant": "plain", "skipped": "", "problem": problem, "errors": []}]}


def test_a_wrong_output_is_told_with_hints() -> None:
    told = diagnosis(**wrong("on plain inputs: the output is wrong: at [0] expected 1, got 2"))
    assert told == "On plain inputs: the output is wrong: at [0] expected 1, got 2."
    seeded = diagnosis(**wrong("the output is wrong"), parameters="seeded", mismatch="lacks weight")
    assert "lacks weight" in seeded
    triton = "import triton\nclass ModelNew: pass"
    assert "No mask" in diagnosis(triton, **wrong("the output is wrong (a tail that was not handled)"))
    assert "half precision" in diagnosis("x = y.half()", **wrong("the output is wrong: lower precision than the task's"))


def test_every_violation_of_the_judge_comes_with_advice() -> None:
    for name, advice in ADVICE.items():
        told = diagnosis(violations=[[name, "it was seen"]])
        assert f"{name}: it was seen." in told.replace(name.capitalize(), name)
        assert advice in told


def test_a_good_candidate_is_told_its_speed_its_floor_and_its_hottest_parts() -> None:
    told = diagnosis(
        trials=[{"variant": "plain", "skipped": "", "problem": "", "errors": []}],
        timing={"eager": {"speedup": [1.5, 1.4, 1.6], "baseline_ms": 3.0, "candidate_ms": 2.0, "clock": "inner"}},
        facts={"bytes_per_second": 1e9, "input_bytes": 400_000, "output_bytes": 100_000, "parameter_bytes": 0},
        coverage={"share": 0.42, "method": "samples", "own": [], "hottest": [["own kernels", 0.42], ["libm.so", 0.3]]},
    )
    assert "1.500× the speed of eager (1.400 to 1.600): 2 ms against 3 ms." in told
    assert "about 0.5 ms; the kernel takes 4.0 times that" in told
    assert "Own kernels do 42% of the work." in told
    assert "own kernels 42%, libm.so 30%" in told


def test_nothing_moves_the_terminal() -> None:
    assert printable("a\x1b[2Jb\tc\nd\x00\u202e\ud800") == "a�[2Jb\tc\nd���"
    failure = {"kind": "failure", "stage": "forward", "type": "E\x1b[0m", "text": "\x1b]0;title\x07 \ud800"}
    told = diagnosis(failure=failure)
    assert "\x1b" not in told
    told.encode()


def test_a_diagnosis_is_bounded() -> None:
    failure = {"kind": "failure", "stage": "forward", "type": "E" * 10**6, "text": "x\n" * 10**6, "where": ["y" * 10**6] * 99}
    assert len(diagnosis(failure=failure)) < 20_000
    assert len(diagnosis(failure={"kind": "died"}, ending={"signal": 6, "output": "z" * 10**6})) < 20_000
    assert len(diagnosis(**wrong("w" * 10**6))) < 20_000
    assert len(diagnosis(failure={"kind": "forged", "text": "w" * 10**6})) < 20_000


FACTS = {"inputs": [["float32", [16, 64]], ["int64", [16]]], "outputs": [["float32", [16, 64]]]}


def test_a_wrong_output_comes_with_math_mode_data_types_and_tolerance() -> None:
    found = wrong("on plain inputs: the output is wrong: at [0, 3] expected 1, got 1.1; every element is off by little")
    found["trials"][0]["errors"] = [{"relative": 0.1, "reference_relative": 1e-7, "worst_element": 0.0471, "limit": 5e-5}]
    told = diagnosis(**found, facts=FACTS, oracle="fp64")
    assert "Math mode: fp32 with TF32 off; inputs float32 [16, 64], int64 [16]; outputs float32 [16, 64]." in told
    assert "float32 may differ from fp64 by 5e-05 in the root mean square and by 0.0003 of its size" in told
    assert "8 times what the reference differs" in told and "Its worst element differs by 0.047." in told
    lower = diagnosis(**found, facts=FACTS, oracle="reference", settings=Settings(precision="bf16"))
    assert "autocast to bf16 allowed" in lower and "from the reference's own output by 0.02" in lower
    assert len(told) < 1200, "a prompt shows no more of it"


def test_an_output_of_another_shape_or_type_needs_no_tolerance() -> None:
    told = diagnosis(**wrong("the output has data type float16; the reference's has float32"), facts=FACTS)
    assert "outputs float32 [16, 64]." in told and "may differ" not in told
    whole = {"inputs": [["float32", [n]] for n in range(9)], "outputs": [["int64", [1]], ["bool", [1]]]}
    told = diagnosis(**wrong("output 0 is wrong: at [0] expected 1, got 2"), facts=whole)
    assert "float32 [3] and 5 more" in told and "int64 must be equal. bool must be equal." in told


CUDA = (
    "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-runner assertions.\n"
)
TRITON = (
    "at 12:4:\n"
    + "".join(f"    line_{n} = {n}\n" for n in range(30))
    + "    y = tl.foo(x)\n        ^\nmodule has no attribute foo"
)
NINJA = "Error building extension 'mine': [1/2] c++ -MMD\nFAILED: main.o\nc++ -MMD -DX\nmain.cpp:5:3: error: 'y' was not declared\n    5 |   y;"


@pytest.mark.parametrize(
    ("text", "first", "absent"),
    [
        (CUDA, "an illegal memory access", "debugging"),
        (TRITON, "module has no attribute foo", "line_3 "),
        (NINJA, "main.cpp:5:3: error: 'y' was not declared\n    5 |   y;", "FAILED"),
        (
            "a.o: in function f:\nx\ny\nz.cpp:(.text+0x5): undefined reference to `g'\n",
            "undefined reference to `g'",
            "in function",
        ),
        ("ptxas error   : Entry function 'k' uses too much shared data (0x18000 bytes)", "too much shared data", "\n"),
    ],
    ids=["cuda", "triton", "ninja", "linker", "ptxas"],
)
def test_the_first_native_error_is_told_and_not_what_is_around_it(text: str, first: str, absent: str) -> None:
    told = first_errors(text)
    assert first in told and absent not in told
    assert not text.startswith("at ") or told.startswith("at 12:4:")


def test_what_it_began_with_is_told() -> None:
    failure = {
        "kind": "failure",
        "stage": "forward",
        "type": "ValueError",
        "text": "failed",
        "first": f"AcceleratorError: {CUDA}",
    }
    told = diagnosis(failure=failure)
    assert "ValueError: failed\nIt began with AcceleratorError: CUDA error: an illegal memory access was encountered" in told
    assert "debugging" not in told


def test_a_verdict_stays_small_whatever_is_reported() -> None:
    long, nest = "[bold]\x1b" * 10**5, [[[]]] * 10**5
    examination = {
        "trials": [],
        "stages": {},
        "facts": FACTS,
        "violations": [["late_write", long]] * 1000 + [["input_mutated", nest]],
        "notes": [long] * 1000,
        "parameters": "seeded",
        "mismatch": long,
        "problem": long,
        "coverage": gpu_coverage(
            [[f"k{n}<{long}>", 1.0, 1.0] for n in range(200)], " ".join(f"k{n}" for n in range(200)), ()
        ).to_json(),
    }
    verdict = decide(TASK, candidate_from("class ModelNew: pass"), Settings(), examination)
    text = json.dumps(verdict.to_json())
    assert len(text) < 100_000 and "\\u001b" not in text
