"""Foreign text is read in one pass, cut, and shown as what it is: whatever it holds, and however much of it there is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bottega.agents.cards import keyed_cards
from bottega.core.candidate import SOURCE_LIMIT, Candidate
from bottega.core.foreign_text import html_text, markdown_text, one_line, printable, shown, tokens, words_of
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.coverage import claimed_kernels, gpu_coverage
from bottega.judge.diagnosis import diagnose, first_errors
from bottega.judge.settings import Settings
from bottega.languages import detect_language

pytestmark = pytest.mark.rotates

ADVERSARIAL = {
    "imports on one line": "from bottega.runtime import x ",
    "imports without end": "from bottega.runtime import (",
    "marks of kernels": "__global__ ",
    "attributes without end": "__global__ __launch_bounds__(",
    "linkage without braces": 'extern "C" ',
    "linkage with braces": 'extern "C" { ',
    "escaped linkage": 'extern \\"C\\" ',
    "decorators": "@triton.jit\n",
    "decorators without end": "@triton.autotune(",
    "constructors": "def __init__",
    "cached constructors": "cached def __init__(self):\n",
    "at signs": "@",
    "dots": "a.",
    "brackets": "(",
    "braces": "{",
    "white space": " ",
    "line ends": "\n",
    "one word": "x",
    "comments": "/*",
    "quotes": '"',
    "enumerations": "enum {",
    "stars": "*",
}


def text_of(name: str, size: int) -> str:
    part = ADVERSARIAL[name]
    return part * (size // len(part))


def read_all(text: str) -> None:
    """Everything that the judge does with the text of a candidate in a trusted process."""
    language = detect_language(text)
    claimed = [claimed_kernels(text, each) for each in ("triton", "cuda", "cpp", language)]
    assert all(len(names) <= 64 for names in claimed)
    gpu_coverage([[text, 1.0, 1.0]], text, claimed[0])
    problem = "on plain inputs: the output is wrong, in a lower precision, at its tail"
    found = {"problem": problem, "parameters": "seeded", "mismatch": text, "facts": {}, "trials": []}
    diagnose(Verdict(Outcome.INCORRECT), Candidate(text, "triton"), Settings(), found, {"output": text})
    first_errors(text)
    printable(text)
    keyed_cards(text[:100_000])


def seconds(call: Callable[[str], None], text: str) -> float:
    begun = time.process_time()
    call(text)
    return time.process_time() - begun


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if place % 4 else []) for place, name in enumerate(ADVERSARIAL)]
)
@pytest.mark.timeout(120)
def test_reading_takes_time_in_proportion_to_the_text(name: str) -> None:
    """Four times the text takes about four times as long; what was quadratic took sixteen times, and minutes for a megabyte."""
    assert sum(1 for _ in tokens(text_of(name, 1 << 16))) <= 1 << 16
    small, large = (seconds(read_all, text_of(name, size)) for size in (SOURCE_LIMIT // 16, SOURCE_LIMIT // 4))
    assert large < 10 * small + 0.1


def test_a_thousand_kernels_claim_no_more_than_a_verdict_holds() -> None:
    names = claimed_kernels("".join(f"__global__ void k{n}_{'x' * 500}(int n) {{}}\n" for n in range(1000)), "cuda")
    assert len(names) == 64 and all(len(name) <= 120 for name in names)


def test_what_moves_a_terminal_or_breaks_an_encoder_is_replaced() -> None:
    assert printable("a\x1b[2Jb\tc\nd\x00\u202e\ud800\x9b") == "a\ufffd[2Jb\tc\nd\ufffd\ufffd\ufffd\ufffd"
    assert one_line("a\n\tb\x1b  c" + "x" * 500, 20) == "a b\ufffd cxxxxxxxxxxxxx…"


def test_values_of_another_process_are_words_or_nothing() -> None:
    nest: list = []
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(RecursionError):
        repr(nest)
    assert words_of(nest, 10) == words_of(None, 10) == words_of({"a": nest}, 10) == ""
    assert words_of("x" * 50, 10) == "x" * 10 and words_of(7, 10) == "7"
    assert shown(nest) == "a list" and shown({"a": nest}) == "a dict"
    assert shown("x" * 500, 10) == "'xxxxxxxxx" and shown(1.5) == "1.5" and shown(None) == "None"


def test_a_name_stays_a_name_in_markdown_and_html() -> None:
    hostile = "[x](http://y) ![z] <b>| `a` **b** __c__ # d\nfast_1 $e$ &lt;"
    text = markdown_text(hostile)
    assert "\n" not in text and "fast_1" in text
    for part in ("\\[x\\]", "\\<b\\>\\|", "\\`a\\`", "\\*\\*b", "\\_\\_c\\_\\_", "\\# d", "\\$e", "\\&lt;"):
        assert part in text
    assert html_text('<a href="x">\x1b&') == "&lt;a href=&quot;x&quot;&gt;\ufffd&amp;"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("cpp('#include <cmath>\\nextern \"C\" void scale(float* x) {}')", {"scale"}),
        ('"extern \\"C\\" int64_t count(const float* x) {}"', {"count"}),
        ('extern "C" __attribute__((visibility("default"))) void f(int n) {}', {"f"}),
        ('extern "C" {\n  struct x;\n  void f(int n) {}\n}', {"f"}),
        ('It uses extern "C" functions, see foo(x).', set()),
    ],
)
def test_names_are_found_in_strings_and_blocks_and_not_in_prose(source: str, names: set[str]) -> None:
    assert set(claimed_kernels(source, "cpp")) == names


def test_an_import_over_several_lines_names_its_language() -> None:
    assert detect_language("from bottega.runtime import (\n    CompileError,\n    cpp,\n)\n") == "cpp"
    assert detect_language("from bottega.compiler.library.triton import lines\n") == "torch"
