"""Misfits: what an answer says of sizes, compared with the sketch's."""

from __future__ import annotations

import pytest

from bottega.agents.answers.lint.shapes import misfits

SKETCH = """forward(x, keep)
x 8x16
keep 8x16 bool
self.centre 16
self.scale 1
t1 = sub(x, self.centre) 8x16
t2 = mul(t1, self.scale) 8x16
t3 = sum(t2, dim=1) 8
t4 = tril(x) 8x16
t5 = triu(x) 8x16
return t3"""
ANSWER = """import torch


class ModelNew(Model):
    def forward(self, x, keep):
        # t1 = sub(x, self.centre)
        # t2 = mul(t1, self.scale)
        # t3 = sum(t2, dim=1)
        t3 = torch.empty((8,), device=x.device, dtype=x.dtype)
        columns = x.shape[1]
        t3_kernel[(x.shape[0],)](x, self.centre, self.scale, t3, columns, BLOCK=16)
        return t3


@triton.jit
def t3_kernel(x_ptr, centre_ptr, scale_ptr, t3_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column)
    centre = tl.load(centre_ptr + column)
    scale = tl.load(scale_ptr)
    # t1 = sub(x, self.centre)
    t1 = x - centre
    # t2 = mul(t1, self.scale)
    t2 = t1 * scale
    # t3 = sum(t2, dim=1)
    t3 = tl.sum(t2, axis=0)
    tl.store(t3_ptr + row, t3)
"""


def test_an_answer_that_fits_has_none() -> None:
    assert misfits(ANSWER, SKETCH) == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("columns = x.shape[1]", "columns = keep.shape[2]", "keep has no dimension 2"),
        ("columns = x.shape[1]", "left = x[:, :, :4]\n        columns = x.shape[1]", "x has no dimension 2"),
        ("tl.load(centre_ptr + column)", "tl.load(centre_ptr)", "t3_kernel reads the first of the 16 elements of centre for all"),
        ("tl.load(scale_ptr)", "tl.load(scale_ptr + column)", "t3_kernel reads scale, which is one number, as many"),
        ("torch.empty((8,)", "torch.empty((8, 16)", "t3 has room for 128 elements and not for 8"),
        ("tl.sum(t2, axis=0)", "t2", "t3_kernel computes sum and reduces nothing"),
        ("        return t3", "        return t3, x", "what is returned is not what the sketch returns: t3"),
        ("        return t3", "        t1 = x.shape[0]\n        return t3", "t1 is a size and not what the sketch computes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(old: str, new: str, said: str) -> None:
    assert misfits(ANSWER.replace(old, new), SKETCH) == (said,)


def test_a_kernel_for_another_call_is_said_and_for_the_same_is_not() -> None:
    both = """
class ModelNew(Model):
    def forward(self, x, keep):
        t4 = torch.empty((8, 16), device=x.device, dtype=x.dtype)
        t4_kernel[(1,)](x, t4, 16, BLOCK=16)
        t5 = torch.empty((8, 16), device=x.device, dtype=x.dtype)
        t4_kernel[(1,)](x, t5, 16, BLOCK=16)
        return t5


@triton.jit
def t4_kernel(x_ptr, t4_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(t4_ptr + offsets, tl.load(x_ptr + offsets))
"""
    assert misfits(both, SKETCH) == ("t4_kernel makes tril, and t5 is triu",)
    assert misfits(both, SKETCH.replace("triu", "tril")) == ()


def test_several_results_and_dictionaries_are_counted() -> None:
    pair, named = SKETCH.replace("return t3", "return (t3, t1)"), SKETCH.replace("return t3", "return {'sum': t3}")
    assert misfits(ANSWER, pair) == ("what is returned is not what the sketch returns: (t3, t1)",)
    assert misfits(ANSWER.replace("return t3", "return t3, x"), pair) == ()
    assert misfits(ANSWER, named) and not misfits(ANSWER.replace("return t3", "return {'sum': t3}"), named)
    assert misfits(ANSWER.replace("return t3", "return finish(t3)"), pair) == ()  # nobody knows


def test_of_other_answers_nothing_is_said() -> None:
    network = "class ModelNew(Model):\n    def __init__(self):\n        super().__init__()\n\n    def run(self, x):\n        return x.shape[9]\n"
    for text in ("def (", "x = 1", network):
        assert misfits(text, SKETCH) == ()
    assert misfits(ANSWER, "") == ()
    assert misfits(ANSWER.replace("t1 = x - centre", "t1 = x" + " - x" * 3000), SKETCH) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.empty((8,)", "torch.empty((8, True)"),
        ("columns = x.shape[1]", f"columns = x.shape[0x{'f' * 4000}]"),
        ("torch.empty((8,)", f"torch.empty(({'9' * 3000}, {'9' * 3000})"),
        ("@triton.jit", f"@f({'-' * 900}1)\n@triton.jit"),
    ],
)  # fmt: skip
def test_no_text_is_too_odd_to_be_looked_at(old: str, new: str) -> None:
    misfits(ANSWER.replace(old, new), SKETCH)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.sum(t2, axis=0)", "t2.sum(axis=0)"),
        ("    tl.store(t3_ptr + row, t3)", "    tl.atomic_add(t3_ptr + row, t3)"),
        ("tl.load(scale_ptr)", "tl.load(scale_ptr + 0)"),
        ("    centre = tl.load(centre_ptr + column)", "    centre_ptr = centre_ptr + column\n    centre = tl.load(centre_ptr)"),
        ("        return t3", "        out = t3, x\n        return out"),
    ],
)  # fmt: skip
def test_other_ways_to_do_it_right_are_let_be(old: str, new: str) -> None:
    assert misfits(ANSWER.replace(old, new), SKETCH) == ()


def test_an_earlier_result_that_is_read_is_not_taken_for_the_one_that_is_made() -> None:
    sketch = SKETCH.replace("return t3", "return t2")
    two = ANSWER.replace(
        "        return t3",
        "        t2 = torch.empty((8, 16), device=x.device)\n        t2_kernel[(8,)](t2, t3, 16)\n        return t2",
    )
    assert (
        misfits(two + "\n\n@triton.jit\ndef t2_kernel(t2_ptr, t3_ptr, n):\n    tl.store(t2_ptr, tl.load(t3_ptr + n))\n", sketch)
        == ()
    )


LOOKED_UP = """forward(x)
x 4x8x16
self.gain 8x1
t1 = mul(x, self.gain) 4x8x16
return t1"""
LOOKING = """import torch


class ModelNew(Model):
    def forward(self, x):
        # t1 = mul(x, self.gain)
        t1 = torch.empty((4, 8, 16), device=x.device, dtype=x.dtype)
        n = x.numel()
        t1_kernel[(triton.cdiv(n, 1024),)](x, self.gain, t1, n, BLOCK=1024)
        return t1


@triton.jit
def t1_kernel(x_ptr, gain_ptr, t1_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    gain = tl.load(gain_ptr + index_in((8, 1), (4, 8, 16), offsets), mask=mask)
    t1 = x * gain
    tl.store(t1_ptr + offsets, t1, mask=mask)
"""


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ("index_in((8, 1), (4", "index_in((8, 1), (4", ()),
        ("index_in((8, 1), (4", "index_in((8,), (4", ("t1_kernel looks gain up as (8,), and it is (8, 1)",)),
        (
            "index_in((8, 1), (4, 8, 16), offsets)",
            "index_in_part((16, 1), 0, 8, (8, 1), offsets)",
            ("t1_kernel looks gain up as (16, 1), and it is (8, 1)",),
        ),
        (
            "index_in((8, 1), (4, 8, 16), offsets)",
            "offsets",
            ("t1_kernel reads gain, of 8 elements, at 512 places",),
        ),
        ("index_in((8, 1), (4, 8, 16), offsets)", "offsets // 16 % 8", ()),
    ],
)
def test_lookups_and_places_fit_the_operands(then: str, now: str, told: tuple[str, ...]) -> None:
    assert then in LOOKING
    assert misfits(LOOKING.replace(then, now), LOOKED_UP) == told
