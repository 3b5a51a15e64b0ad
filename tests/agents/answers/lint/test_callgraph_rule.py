"""Doubts: an answer that speaks the sketch's names and says something else."""

from __future__ import annotations

from bottega.agents.answers.lint.callgraph import doubts

SKETCH = """forward(x)
x 8x16
t1 = pow(x, 3) 8x16
t2 = mul(t1, 0.5) 8x16
t3 = tanh(t2) 8x16
t4 = add(x, t3) 8x16
return t4"""
ANSWER = """
@triton.jit
def t4_kernel(x_ptr, t4_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    t1 = x * x * x
    t2 = t1 * 0.5
    t3 = libdevice.tanh(t2)
    t4 = x + t3
    tl.store(t4_ptr + offsets, t4)


class ModelNew(Model):
    def forward(self, x):
        t4 = torch.empty((8, 16), device=x.device, dtype=x.dtype)
        t4_kernel[(1,)](x, t4, 128, BLOCK=128)
        return t4
"""


def test_an_answer_that_follows_the_sketch_raises_none() -> None:
    assert doubts(ANSWER, SKETCH) == ()
    assert doubts(ANSWER.replace("tanh(t2)", "tanh(v0)").replace("t2 = t1", "v0 = t1"), SKETCH) == ()  # other names in between


def test_another_result_than_the_sketchs_is_told() -> None:
    assert doubts(ANSWER.replace("tanh(t2)", "tanh(t1)"), SKETCH) == ("t3 is computed from t1, which the sketch does not say",)
    assert doubts(ANSWER.replace("t4 = x + t3", "t4 = x + t2"), SKETCH) == (
        "t4 is computed from t2, which the sketch does not say",
    )


def test_a_result_without_a_variable_is_what_it_is_made_of() -> None:
    fused = ANSWER.replace("    t2 = t1 * 0.5\n", "").replace("tanh(t2)", "tanh(t1 * 0.5)")
    assert doubts(fused, SKETCH) == ()


def test_other_functions_other_names_and_no_sketch_raise_none() -> None:
    beside = ANSWER + "\n\ndef helper(t2):\n    t3 = t2 + t4\n    return t3\n"
    assert doubts(beside, SKETCH) == ()
    assert doubts(ANSWER.replace("t3", "mid").replace("t2", "half"), SKETCH) == ()
    assert doubts(ANSWER, "") == doubts("def (", SKETCH) == ()


def test_a_file_that_is_nested_too_deeply_raises_nothing() -> None:
    deep = ANSWER.replace("t1 = x * x * x", "t1 = x" + " + x" * 3000)
    assert doubts(deep, SKETCH) == ()
