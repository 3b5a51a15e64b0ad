"""Copies of examples whose prompt shows a call graph alone: names change in call graph, attempts and answer alike, and nothing else does."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from judged_records import tell
from torch import nn

from bottega.agents.answers.fences import blocks, fenced
from bottega.agents.module_text import without_prose
from bottega.backbone.chat import Message
from bottega.compiler.callgraph_recorder import record
from bottega.compiler.compiler import Compiler
from bottega.compiler.strip import stripped
from bottega.data.build import examples_stage
from bottega.data.example import Example
from bottega.data.fresh_names import ARGUMENTS, ATTRIBUTES, invented, usable
from bottega.data.renaming import renamed, renamings
from bottega.data.settings import ExampleStage
from bottega.tasks.load import load_tasks

WORD = re.compile(r"[^\W\d]\w*")
ATTRIBUTE = re.compile(r"\bself\.([^\W\d]\w*)")
TASKS = ("weighted_bce_rows", "rms_norm_rows", "star_relu", "token_position_embedding", "group_norm_silu_conv")
SKETCH = """\
forward(x, bias, rate)
x 8x64
bias 64
rate 64
self.fc.weight 64x64
self.fc.bias 64
self.linear.weight 64x64
self.gain 64
self.weight 64
t1 = linear(x, self.fc.weight, self.fc.bias) 8x64
t2 = linear(t1, self.linear.weight) 8x64
t3 = mul(t2, self.gain) 8x64
t4 = mul(t3, self.weight) 8x64
t5 = add(t4, bias) 8x64
t6 = mul(t5, rate) 8x64
return t6"""
ANSWER = """\
import torch
import triton
import triton.language as tl


@triton.jit
def tail_kernel(t2_ptr, gain_ptr, weight_ptr, bias_ptr, rate_ptr, t6_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t2 = tl.load(t2_ptr + offsets, mask=offsets < n)
    gain = tl.load(gain_ptr + offsets % 64, mask=offsets < n)
    rate = tl.load(rate_ptr + offsets % 64, mask=offsets < n)
    tl.store(t6_ptr + offsets, t2 * gain * rate, mask=offsets < n)


class ModelNew(Model):
    def forward(self, x, bias, rate):
        t2 = self.linear(self.fc(x))
        t6 = torch.empty((8, 64), device=x.device, dtype=x.dtype)
        tail_kernel[(8,)](t2, self.gain, self.weight, bias, rate, t6, t2.shape[0], BLOCK=64)
        return t6
"""
LAYER = """\
def tiles(rows, columns, depth):
    return 64, 64, 1, 4


class Linear(nn.Linear):
    def forward(self, x):
        return x @ self.weight.T if self.gain is None else x


"""


def example(sketch: str = SKETCH, answer: str = ANSWER, more: str = "") -> Example:
    user = "\n\n".join(filter(None, (fenced(sketch, ""), more)))
    said = (Message("system", "Write a fast kernel."), Message("user", user), Message("assistant", fenced(answer, "python")))
    return Example("write", "first", said, "t", "t", "triton", 1, "matmul", ("linear",), "chain", ("naive",), "faster")


@cache
def taught(name: str, language: str) -> tuple[str, str]:
    """The call graph of a built-in task and the compiler's last kernel for it, as a terse answer has it."""
    (task,) = load_tasks([f"builtin:{name}"], size="cpu").tasks
    source = Compiler().build(task, language).steps[-1].candidate.source
    return record(task.source).text, stripped(without_prose(source), task.source)


def parts(copy: Example) -> tuple[str, str]:
    (sketch, *_), (answer,) = blocks(copy.messages[1].content), blocks(copy.messages[2].content)
    return sketch.body.strip(), answer.body


def exchanged(old: str, new: str) -> dict[str, str]:
    """Word for word, one to one; all else is the same."""
    assert WORD.sub("", old) == WORD.sub("", new)
    pairs = dict(zip(WORD.findall(old), WORD.findall(new), strict=True))
    assert [pairs[word] for word in WORD.findall(old)] == WORD.findall(new) and len(set(pairs.values())) == len(pairs)
    return {before: after for before, after in pairs.items() if before != after}


def respoken(text: str, pairs: dict[str, str]) -> str:
    return WORD.sub(lambda found: pairs.get(found[0], found[0]), text)


def identifiers(source: str) -> list[tuple[str, str]]:
    """Every text that a syntax tree holds, in order, with the kind of its node."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(ast.parse(source)):
        texts = [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
        found += [(type(node).__name__, text) for text in texts] or [(type(node).__name__, "")]
    return found


@pytest.mark.parametrize("language", ["cpp", "triton"])
@pytest.mark.parametrize("name", TASKS)
def test_a_copy_of_the_builders_answer_is_the_same_tree_under_other_names(name: str, language: str) -> None:
    sketch, answer = taught(name, language)
    whole = example(sketch, answer)
    copies = renamings(whole, 6)
    assert copies == renamings(whole, 6) and len({copy.messages for copy in copies if copy}) > 2
    before = set(WORD.findall(sketch + answer))
    for copy in filter(None, copies):
        new_sketch, new_answer = parts(copy)
        pairs = exchanged(sketch, new_sketch)
        inside = exchanged(answer, new_answer)
        assert copy.renamed and pairs and {*pairs.values(), *inside.values()}.isdisjoint(before)
        assert all(inside[word] == pairs[word] for word in inside if word in pairs)
        assert all(any(old in word and new in inside[word] for old, new in pairs.items()) for word in inside)
        for (kind, old), (new_kind, new) in zip(identifiers(answer), identifiers(new_answer), strict=True):
            assert kind == new_kind and new == respoken(old, inside)
        strange = set(ATTRIBUTE.findall(answer)) - set(ATTRIBUTE.findall(sketch))
        assert strange <= {"modules"}  # of our own: a layer is exchanged
        assert set(ATTRIBUTE.findall(new_answer)) <= set(ATTRIBUTE.findall(new_sketch)) | strange


def test_a_pointer_follows_its_tensor_and_what_means_something_else_stays() -> None:
    changed = set()
    for copy in filter(None, renamings(example(), 12)):
        sketch, answer = parts(copy)
        gain, linear = re.search(r"mul\(t2, self\.(\w+)\)", sketch), re.search(r"linear\(t1, self\.(\w+)\.weight\)", sketch)
        rate = re.search(r"^forward\(\w+, bias, (\w+)\)", sketch)
        assert gain is not None and linear is not None and rate is not None
        assert f"t2_ptr, {gain[1]}_ptr, weight_ptr, bias_ptr, {rate[1]}_ptr, t6_ptr" in answer
        assert f"{gain[1]} = tl.load({gain[1]}_ptr" in answer and f"t2 * {gain[1]} * {rate[1]}" in answer
        assert f"t2 = self.{linear[1]}(self." in answer and "t2.shape[0]" in answer
        # `bias` and `weight` stand behind a layer too; `linear` is a function where it is not the module's.
        assert "self.weight 64\n" in sketch and "add(t4, bias)" in sketch and sketch.count(" = linear(") == 2
        changed |= {"gain"} - {gain[1]} | {"linear"} - {linear[1]} | {"rate"} - {rate[1]}
    assert changed == {"gain", "linear", "rate"}


def test_beside_general_layers_inputs_stay_and_so_do_attributes_of_those() -> None:
    answer = ANSWER.replace("@triton.jit", LAYER + "@triton.jit")
    changed = set()
    for copy in filter(None, renamings(example(answer=answer), 12)):
        sketch, new = parts(copy)
        assert sketch.startswith("forward(x, bias, rate)\n") and LAYER in new and "self.gain 64\n" in sketch
        changed |= set(ATTRIBUTE.findall(SKETCH)) - set(ATTRIBUTE.findall(sketch))
    assert changed == {"fc", "linear"}


def test_attempts_change_with_the_call_graph_and_cards_and_diagnoses_do_not() -> None:
    card = "Skills:\nfused_gain: Load gain once.\n\n" + fenced("y = gain * x", "")
    attempt = "## Attempt 1: incorrect\nThe rate is not used: see `rate`.\n" + fenced(ANSWER.replace(" * rate", ""), "python")
    changed = set()
    for copy in filter(None, renamings(example(more=f"{card}\n\n{attempt}"), 8)):
        sketch, answer = parts(copy)
        user = copy.messages[1].content
        gain = re.search(r"mul\(t2, self\.(\w+)\)", sketch)
        assert gain is not None and card in user and "The rate is not used: see `rate`." in user and "rate_ptr" in answer
        assert f"offsets, t2 * {gain[1]}, mask" in user and f"offsets, t2 * {gain[1]} * rate, mask" in answer
        changed.add(gain[1])
    assert len(changed) > 2


def test_a_call_graph_of_before_gives_copies_too_and_other_blocks_give_none() -> None:
    """Without its first line it does not say what forward is called with."""
    older = SKETCH.partition("\n")[2]
    copies = [copy for copy in renamings(example(older), 6) if copy]
    assert copies and all(parts(copy)[0].startswith("x 8x64\nbias 64\nrate 64\n") for copy in copies)
    assert renamed(example("no sketch, but something else"), 0) is None


def test_new_names_are_usable_and_some_are_strange() -> None:
    words = {invented("key", str(number)) for number in range(2000)}
    assert len(words) > 1900 and all(word.isidentifier() and not hasattr(nn.Module(), word) for word in words)
    assert not any(hasattr(nn.Module(), word) for word in ATTRIBUTES) and not usable("goto") and not usable("type")
    news = {word for copy in renamings(example(), 20) if copy for word in WORD.findall(parts(copy)[0])} - set(
        WORD.findall(SKETCH)
    )
    assert news & {*ARGUMENTS, *ATTRIBUTES} and news - {*ARGUMENTS, *ATTRIBUTES}


@pytest.mark.slow
def test_terse_examples_of_material_are_copied(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",))
    outcome, _ = examples_stage(tmp_path, ExampleStage(held_out=0.0, filtered=False, style="terse", renamed=2))
    copies = [one for one in outcome.examples if one.renamed]
    assert outcome.faults == [] and {one.kind for one in copies} >= {"first", "repair"}
    assert any("self.scale" not in one.messages[1].content for one in copies)
