"""Walking: what an answer says of the sketch's calls, compared with the sketch."""

from __future__ import annotations

import pytest

from bottega.agents.answers.lint.call_order import strayed

SKETCH = """forward(x)
x 8x16
self.fc.weight 16x16
t1 = linear(x, self.fc.weight) 8x16
t2 = unsqueeze(t1, 1) 8x1x16
t3 = tanh(t2) 8x1x16
t4 = add(t3, 1) 8x1x16
return t4"""
ANSWER = """import torch


class ModelNew(Model):
    def forward(self, x):
        t1 = linear(x, self.fc.weight)
        # t2 = unsqueeze(t1, 1)
        # t3 = tanh(t2)
        # t4 = add(t3, 1)
        t4 = torch.empty((8, 1, 16), device=x.device, dtype=x.dtype)
        t4_kernel[(1,)](t1, t4, 128, BLOCK=128)
        return t4


@triton.jit
def t4_kernel(t1_ptr, t4_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)  # t9 = all of them
    t1 = tl.load(t1_ptr + offsets)
    # t2 = unsqueeze(t1, 1)
    t2 = t1
    # t3 = tanh(t2)
    t3 = libdevice.tanh(t2)
    # t4 = add(t3, 1)
    t4 = t3 + 1.0
    tl.store(t4_ptr + offsets, t4)
"""


def test_an_answer_along_the_sketch_has_not_strayed() -> None:
    assert strayed(ANSWER, SKETCH) == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("# t3 = tanh(t2)", "# t3 = tanh(t1)", ("the sketch has no t3 = tanh(t1)", "t3 = tanh(t2) is left out")),
        ("        # t3 = tanh(t2)\n", "", ("forward does not say t3 = tanh(t2)", "t3 = tanh(t2) is left out")),
        ("    # t3 = tanh(t2)\n    t3", "    t3", ("no kernel computes t3 = tanh(t2)",)),
        ("        t1 = linear(x, self.fc.weight)\n", "", ("t1 = linear(x, self.fc.weight) is left out",)),
    ],
)
def test_what_departs_is_said(old: str, new: str, said: tuple[str, ...]) -> None:
    assert strayed(ANSWER.replace(old, new), SKETCH) == said


def test_views_may_be_taken_in_and_other_answers_are_not_asked() -> None:
    assert strayed(ANSWER.replace("# t2 = unsqueeze(t1, 1)\n", "# \n"), SKETCH) == ()
    silent = "\n".join(line for line in ANSWER.splitlines() if not line.strip().startswith("# t"))
    assert strayed(silent, SKETCH) == strayed(ANSWER, "") == strayed("def (", SKETCH) == strayed("x = 1", SKETCH) == ()


def test_what_nothing_is_made_of_may_be_left_out() -> None:
    unused = SKETCH.replace("t2 = unsqueeze", "t9 = sin(x) 8x16\nt2 = unsqueeze")
    assert strayed(ANSWER, unused) == ()


def test_a_product_in_a_kernel_that_adds_nothing_up_is_in_doubt() -> None:
    call = "# t1 = linear(x, self.fc.weight)"
    told = ANSWER.replace("        t1 = linear(x, self.fc.weight)\n", f"        {call}\n")
    hasty = told.replace(
        "    t1 = tl.load(t1_ptr + offsets)\n",
        f"    x = tl.load(t1_ptr + offsets)\n    {call}\n    t1 = tl.where(x < 0, 0.0, x)\n",
    )
    assert strayed(hasty, SKETCH) == ("t4_kernel cannot compute t1 = linear(x, self.fc.weight)",)
    whole = hasty.replace("    t1 = tl.where(x < 0, 0.0, x)\n", "    t1 = tl.dot(x, tl.load(weight_ptr + offsets))\n")
    assert strayed(whole, SKETCH) == ()
