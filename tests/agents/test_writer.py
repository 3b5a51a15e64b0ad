"""Writers: a prompt with all that a turn needs, and candidates out of answers whose fences went wrong."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graph_text import graph

from bottega.agents.answers.answer import AnswerError
from bottega.agents.answers.fences import fenced
from bottega.agents.earlier_turn import EarlierTurn
from bottega.agents.prompts import Prompts, guide_names
from bottega.agents.writer import WriterInput, messages, parse
from bottega.core.device import DeviceFacts
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.languages import candidate_from

CODE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
OTHER = CODE.replace("return x", "return -x")
FENCE = "```"
DOCUMENTED = f'"""Doc.\n\n{FENCE}python\nx = 1\n{FENCE}\n"""\n' + CODE


def block(code: str, info: str = "python") -> str:
    return f"{FENCE}{info}\n{code}{FENCE}"


def test_the_compact_prompt(
    task: Task, device: DeviceFacts, card: Callable[..., Skill], turn: Callable[..., EarlierTurn]
) -> None:
    first = turn(1, "compile_error", None)
    best = EarlierTurn("class ModelNew: ...", "Fused.", "Fine.", "faster", 1.324, (1.28, 1.36))
    given = WriterInput(task, "cpp", device, (card(),), (first, best), best, target=1.5)
    system, user = messages(given, Prompts("compact"))
    assert system.content.startswith(
        "You write fast C++ kernels. Answer with one line that says what you do, then the whole file"
    )
    assert system.content.endswith(
        "Device: cpu: Some CPU, x86_64 avx2, 8 threads, 16 GiB memory, 32 MiB shared cache, 512 KiB cache a core"
    )
    assert (
        user.content
        == f"""\
Task:
```python
{task.source}```

Goal: at least 1.5x the speed of PyTorch eager

Skills, use what helps:
## one_pass: one_pass saves reads of memory.
data types: float32 in and out. layout: rows are contiguous.
Do it all in one loop over memory, with the row in the cache.
```cpp
for (;;) {{}}
```

Attempts, oldest first:
## Attempt 1
outcome: compile_error
Change 1.
Told 1.
```python
# kernel 1
class ModelNew: ...
```

## Attempt 2
outcome: faster 1.32x (1.28 to 1.36)
Fused.
Fine.
```python
class ModelNew: ...
```

Best so far: attempt 2, faster 1.32x (1.28 to 1.36)."""
    )


def test_a_terse_prompt_shows_the_callgraph_instead_of_the_task_where_there_is_one(task: Task, device: DeviceFacts) -> None:
    callgraph = "forward(x)\nx 256x512\nself.gain 512\nt1 = relu(x) 256x512\nt2 = mul(t1, self.gain) 256x512\nreturn t2"
    given = WriterInput(task, "triton", device)
    system, user = messages(replace(given, callgraph=graph(callgraph)), Prompts("terse"))
    assert system.content == "Write a fast Triton kernel."
    assert user.content == f"{FENCE}\n{callgraph}\n{FENCE}"
    assert messages(given, Prompts("terse"))[1].content == f"{FENCE}python\n{task.source}{FENCE}"
    spoken = Task('"""Relu."""\n\n' + task.source.replace("super().__init__()", "super().__init__()  # as ever"))
    assert messages(replace(given, task=spoken), Prompts("terse")) == messages(given, Prompts("terse"))
    for style in ("compact", "full"):
        assert messages(replace(given, callgraph=graph(callgraph)), Prompts(style)) == messages(given, Prompts(style))


@pytest.mark.parametrize("style", ["terse", "compact", "full"])
def test_a_card_is_shown_with_the_conditions_under_which_it_is_sound(
    style: Any, task: Task, device: DeviceFacts, card: Callable[..., Skill]
) -> None:
    plain = card("one_pass")
    conditioned = replace(plain, conditions=replace(plain.conditions, hardware="only from 132 SMs on"))
    _, user = messages(WriterInput(task, "cpp", device, skills=(conditioned,)), Prompts(style))
    assert "only from 132 SMs on" in user.content


def test_prompts_of_one_trace_share_their_beginning(task: Task, device: DeviceFacts, turn: Callable[..., EarlierTurn]) -> None:
    given = WriterInput(task, "cpp", device, past=(turn(1),))
    before = messages(given, Prompts("compact"))
    after = messages(replace(given, past=(turn(1), turn(2)), best=turn(2)), Prompts("compact"))
    assert after[0] == before[0] and after[1].content.startswith(before[1].content)


RULES = ("loaded after construction", "new contents", "fresh memory", "torch.compile", "CUDA graph", "Summary:")


@pytest.mark.parametrize(
    ("precision", "rule"),
    [
        ("fp32", "tf32, fp16 and bf16 shortcuts fail"),
        ("tf32", "tf32 matrix products are allowed"),
        ("bf16", "bf16 arithmetic is allowed"),
    ],
)
def test_the_full_prompt_has_the_rules(task: Task, device: DeviceFacts, precision: str, rule: str) -> None:
    for language in guide_names():
        given = WriterInput(task, language, device, precision=precision, baseline="compile")
        told = "".join(message.content for message in messages(given, Prompts("full")))
        assert [wanted for wanted in (*RULES, rule) if wanted not in told] == []
        assert "Earlier attempts" not in told and "# Skills" not in told


def test_a_kernel_with_fences_in_it_is_shown_in_a_longer_fence(
    task: Task, device: DeviceFacts, turn: Callable[..., EarlierTurn]
) -> None:
    shown = messages(WriterInput(task, "cpp", device, past=(turn(source=DOCUMENTED),)), Prompts("compact"))[1].content
    assert f"````python\n{DOCUMENTED}````" in shown
    assert parse(shown).source == DOCUMENTED


def test_any_source_comes_back_out_of_its_fence() -> None:
    dice = random.Random(3)
    for _ in range(300):
        inside = "".join(
            dice.choice(["x = 1\n", "```\n", "```python\n", "~~~\n", "# hm\n", "\n"]) for _ in range(dice.randint(0, 12))
        )
        source = f'"""{inside}"""\n{CODE}'
        assert parse(f"Text.\n{fenced(source, 'python')}\nMore.").source == source


@pytest.mark.parametrize("seed", range(3))
def test_broken_answers_raise_nothing_but_answer_errors(seed: int) -> None:
    dice = random.Random(seed)
    pieces = [
        "```",
        "```python\n",
        "\n",
        "</think>",
        "\n<think>",
        "\ud800",
        "\x00",
        "“",
        "class ModelNew",
        "~~~",
        "    ",
        "\r",
        "(",
        '"""',
        "\x0c",
    ]
    for _ in range(400):
        text = dice.choice([block(CODE), block(DOCUMENTED), CODE])
        for _ in range(dice.randint(1, 8)):
            at = dice.randint(0, len(text))
            text = text[:at] + dice.choice(pieces) + text[at + dice.choice([0, 0, 9]) :]
        with contextlib.suppress(AnswerError):
            assert "ModelNew" in parse(text).source


@pytest.mark.parametrize("info", ["python", "py", "", "Python", "python3 title=x", "python\t"])
def test_one_block(info: str) -> None:
    written = parse(f"I fuse the loops.\n{block(CODE, info)}\n")
    assert (written.source, written.summary) == (CODE, "I fuse the loops.")


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        block(OTHER) + "\nbut better:\n" + block(CODE),
        block(CODE) + "\nRun it:\n" + block("pip install torch\n", "bash"),
        block("x = 1\n") + "\n" + block(CODE, "cpp"),
        block(CODE).replace("\n", "\r\n"),
        f"~~~python\n{CODE}~~~",
        f"<think>{block(OTHER)}</think>\n{block(CODE)}",
        f"<think>\nfirst\n{block(OTHER)}\n</think>\n<reasoning>\n{block(OTHER)}\n</reasoning>{block(CODE)}",
        f"{block(OTHER)} was a draft</think>{block(CODE)}",
        f"{block(CODE)}\n<think>\n{block(OTHER)}",
        f"{FENCE}markdown\n{block(CODE)}\n{FENCE}",
        f"{FENCE}python\n{CODE}",
        f"{FENCE}python\n{CODE}This kernel does it all in one pass, and it's fast!\nReally.",
        f"{FENCE}python\n{CODE.rstrip()}{FENCE}",
        f"1. So:\n   {FENCE}python\n"
        + "".join(f"   {line}\n" if line else "\n" for line in CODE.split("\n")[:-1])
        + f"   {FENCE}",
        f"{block(CODE)}\n\nand then it goes on {FENCE}python\nclass ModelNew",
        f"{block(CODE)}\n{FENCE}python\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        y = foo(",
    ],
)
def test_the_right_code_is_found(text: str) -> None:
    assert parse(text).source == CODE


def test_fences_inside_the_code_do_not_cut_it() -> None:
    assert parse(f"Here:\n{block(DOCUMENTED)}\nDone.").source == DOCUMENTED
    inner = f'"""\n{FENCE}\nx\n{FENCE}\n"""\n' + CODE
    assert parse(block(inner)).source == inner
    after = CODE + f'\nHELP = """\n{FENCE}\nx\n{FENCE}\n"""\n'
    assert parse(block(after)).source == after


def test_raw_python_may_begin_with_the_class() -> None:
    assert parse("class ModelNew: ...").source == "class ModelNew: ...\n"


def test_syntax_errors_are_the_judges_business() -> None:
    broken = CODE.replace("return x", "return (x")
    assert parse(block(broken)).source == broken
    quoted = CODE.replace("return x", "return “x”")
    assert parse(block(quoted)).source == quoted


def test_escapes_of_cpp_strings_warn_nobody(recwarn: pytest.WarningsRecorder) -> None:
    source = CODE + 'text = "\\d"\n'
    assert parse(block(source)).source == source and not recwarn.list


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("<think>hm</think>", "empty"),
        (f"<think>{block(CODE)}", "unfinished"),
        (f"<think>{block(CODE)}</think> I am done.", "no_code"),
        ("I cannot do that.", "no_code"),
        ("class ModelNew is what I would write: a kernel", "no_code"),
        (block("class Model:\n    pass\n"), "no_model"),
        (block("# class ModelNew comes later\n"), "no_model"),
        (f"{FENCE}python\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        y = foo(", "unfinished"),
        (f"{FENCE}python\nlibrary = cpp(r'''\nvoid f() {{\nclass ModelNew", "unfinished"),
        (block(CODE + "# " + "x" * 100_000 + "\n"), "too_long"),
        (f"{FENCE}python\n{CODE}" + "x = 1\n" * 20_000, "unfinished"),
    ],
)
def test_answers_without_a_candidate(text: str, kind: str) -> None:
    with pytest.raises(AnswerError) as caught:
        parse(text)
    assert caught.value.kind == kind and str(caught.value).startswith(f"{kind}: ")


def test_summaries_are_short_and_never_reasoning() -> None:
    assert parse(f"<think>secret</think>Fused.\n{block(CODE)}").summary == "Fused."
    assert (
        parse(f"Thinking aloud, at length.\n{block(CODE)}\n**Summary:** one pass\nover memory.").summary
        == "one pass over memory."
    )
    assert parse(f"{block(CODE)}\n## Summary: all in one").summary == "all in one"
    assert parse(block('"""Row in cache.\n\nMore."""\n' + CODE)).summary == "Row in cache."
    assert parse(block(CODE)).summary == "" and parse(CODE).summary == ""
    assert 500 < len(parse("word " * 100_000 + "\n" + block(CODE)).summary) <= 600
    assert len(parse("x" * 100_000 + "\n" + block(CODE)).summary) <= 600


@pytest.mark.timeout(60)  # what grows with the square of its length would take longer by far
@pytest.mark.parametrize(
    "junk",
    [
        "x" * 10**6,
        "```\n" * 250_000,
        "```python\n" * 100_000,
        "`" * 10**6,
        "(" * 10**6,
        "~~~ `\n" * 150_000,
        "</think>" * 120_000,
        "<think>\n" * 120_000,
        "```python\nclass ModelNew\n" * 40_000,
        "```python\nclass ModelNew:\n    x = (\n```\n" * 25_000,
        "```python\nclass ModelNew: pass\n" + "x = 1\n" * 160_000,
        "```python\nclass ModelNew: pass\n" + "- " * 49_000,
        "```python\nclass ModelNew: pass\n" + "oh no\n" * 15_000,
        "```python\nclass ModelNew:\n" + "  def f(self): return [\n" * 3_000,
        "```python\nclass ModelNew: pass\n" + "x = 1\n" * 16_000 + "```\n" * 20,
        ("```python\nclass ModelNew: pass\n" + "x = [1, 2]\n" * 8_000 + "oops(\n```\n") * 10,
        "class ModelNew: pass\n" + "a." * 40_000 + "a",
        "class ModelNew: pass\n" + "-" * 90_000 + "1",
        "class ModelNew: pass\nx = " + "[" * 90_000,
        "summary:\n" * 110_000,
        " " * 10**6,
        "#" * 10**6,
        "\x00" * 10**6,
    ],
)
def test_a_megabyte_of_junk_is_read_and_does_not_hold_anybody_up(junk: str) -> None:
    with contextlib.suppress(AnswerError):
        assert len(parse(junk).summary) <= 600


def test_the_cpp_example_computes_what_its_model_does(task: Task) -> None:
    import torch

    given, wanted = {}, {}
    exec(parse(Prompts("compact").guide("cpp")).source, given)
    exec(task.source, wanted)
    model, reference = given["ModelNew"](*wanted["get_init_inputs"]()), wanted["Model"](*wanted["get_init_inputs"]())
    state = {"gain": torch.randn(512)}
    model.load_state_dict(state)
    reference.load_state_dict(state)
    (x,) = wanted["get_inputs"]()
    x[0, 0] = float("nan")
    assert torch.equal(model(x).nan_to_num(7), reference(x).nan_to_num(7))


def test_the_cuda_example_has_a_signature_that_its_launch_fits() -> None:
    from bottega.runtime.signature import read_signatures

    source = parse(Prompts("compact").guide("cuda")).source
    signature = read_signatures(source.split('"""')[1])["relu_gain"]
    assert signature is not None and signature.kernel and len(signature.parameters) == 5
    assert "kernels.relu_gain((count + 255) // 256, 256, x, self.gain, y, count, x.shape[1])" in source


@pytest.mark.slow
@pytest.mark.parametrize("language", ["cpp", "triton"])
def test_examples_are_accepted_by_the_judge(judge: object, task: Task, language: str, tmp_path: Path) -> None:
    source = parse(Prompts("full").guide(language)).source  # type: ignore[arg-type]
    verdict = judge.judge(task, candidate_from(source))  # type: ignore[attr-defined]
    assert verdict.outcome.accepted and verdict.correct, verdict.diagnosis
