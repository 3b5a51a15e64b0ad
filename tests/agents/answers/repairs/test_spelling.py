"""Names that a model misspells are those of the sketch again; whatever is not sure to fail, or not sure to be meant, stays."""

from __future__ import annotations

import pytest

from bottega.agents.answers.repairs.spelling import respelled, within_shapes
from bottega.compiler.link import completed

TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch1x1 = nn.Conv2d(8, 8, 1)
        self.branch3x3 = nn.Conv2d(8, 8, 3)
        self.eps = 1e-5

    def forward(self, energies):
        return self.branch3x3(torch.relu(self.branch1x1(energies))) + self.eps
"""
SKETCH = """forward(energies)
energies 4x8x16x16
self.branch1x1.weight 8x8x1x1
self.branch1x1.bias 8
self.branch3x3.weight 8x8x3x3
self.branch3x3.bias 8
t1 = conv2d(energies, self.branch1x1.weight, self.branch1x1.bias) 4x8x16x16
t2 = relu(t1) 4x8x16x16
t3 = conv2d(t2, self.branch3x3.weight, self.branch3x3.bias) 4x8x14x14
t4 = add(t3, 1e-05) 4x8x14x14
return t4"""


def answer(first: str = "energies", third: str = "self.branch3x3.bias", last: str = "t3 + self.eps") -> str:
    return f"""import torch


class ModelNew(Model):
    def forward(self, energies):
        t1 = conv2d({first}, self.branch1x1.weight, self.branch1x1.bias)
        t2 = torch.relu(t1)
        t3 = conv2d(t2, self.branch3x3.weight, {third})
        t4 = {last}
        return t4
"""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (answer(first="energy"), answer()),
        (answer(first="enérgies"), answer()),
        (answer(third="self.branch3.bias"), answer()),
        (answer(third="self.brunch3x3.bias"), answer()),
        (answer(first="energy", third="self.branch3.bias"), answer()),
    ],
)
def test_a_misspelt_name_is_the_sketchs_again(wrong: str, right: str) -> None:
    assert wrong != right and respelled(wrong, TASK, SKETCH) == right


@pytest.mark.parametrize(
    "written",
    [
        answer(),
        answer(first="something"),  # nothing like an argument
        answer(first="t9"),  # a result, and no argument's name
        answer(third="self.shortcut.bias"),
        answer(third="self.branch1x1.bias"),  # there is such a place: wrong or not is for the judge
        answer(third="self.branch3.gain"),  # no place of the line ends so
        answer(last="t3 + self.epsilon"),
        answer().replace("def forward", "def forwards"),
        "class ModelNew(:\n",
        "",
    ],
)
def test_what_is_not_sure_stays(written: str) -> None:
    assert respelled(written, TASK, SKETCH) == written


@pytest.mark.parametrize(
    ("argument", "line"),
    [("logits", "log(logits)"), ("embeddings", "embedding(embeddings, embeddings)"), ("inputs", "inputs.reshape(input_shape)")],
)
def test_parts_of_the_shelf_and_names_of_the_task_are_no_slips(argument: str, line: str) -> None:
    """The answer is read when it is whole."""
    task = f"import torch\n\ninput_shape = (4, 8)\n\n\nclass Model(torch.nn.Module):\n    def forward(self, {argument}):\n        return {argument}\n"
    written = f"import torch\n\n\nclass ModelNew(Model):\n    def forward(self, {argument}):\n        t1 = {line}\n        return t1\n"
    whole = completed(written, task)
    assert respelled(whole, task, f"forward({argument})\n{argument} 4x8\nt1 = exp({argument}) 4x8\nreturn t1") == whole


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("    def forward", "    branch3 = None\n\n    def forward"),
        (
            "    def forward",
            "    def __init__(self):\n        super().__init__()\n        self.register_buffer('branch3', None)\n\n    def forward",
        ),
        (
            "    def forward",
            "    def __init__(self):\n        super().__init__()\n        setattr(self, 'bran' + 'ch3', None)\n\n    def forward",
        ),
        ("ModelNew(Model)", "ModelNew(Other, Model)"),
        ("class ModelNew", "branches = 'branch3'\n\n\nclass ModelNew"),
        ("        t3 =", "        try:\n            t9 = energy\n        except NameError:\n            t9 = 1\n        t3 ="),
    ],
)
def test_attributes_that_may_come_from_elsewhere_and_guarded_reads_stay(found: str, instead: str) -> None:
    third = "self.branch3x3.bias" if "energy" in instead else "self.branch3.bias"
    written = answer(third=third).replace(found, instead)
    assert written != answer(third=third) and respelled(written, TASK, SKETCH) == written


@pytest.mark.parametrize("odd", [" + ".join(["energies"] * 2000), "energies" + ".a" * 3000, f"0x{'f' * 6000}"])
def test_texts_too_odd_to_be_read_stay(odd: str) -> None:
    written = answer(first="energy", last=odd)
    assert respelled(written, TASK, SKETCH) in (written, answer(last=odd))
    assert within_shapes(written, SKETCH) == written


def test_what_the_answer_sets_itself_is_its_own() -> None:
    own = answer(third="self.branch3.bias").replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n        self.branch3 = self.branch3x3\n\n    def forward",
    )
    assert respelled(own, TASK, SKETCH) == own
    assert respelled(answer(third="self.branch3.bias"), TASK, "") == answer(third="self.branch3.bias")


def test_a_dimension_behind_the_last_is_the_last() -> None:
    wrong, right = answer(last="t3.shape[4] + energies.shape[-1]"), answer(last="t3.shape[3] + energies.shape[-1]")
    assert respelled(wrong, TASK, SKETCH) == wrong and within_shapes(wrong, SKETCH) == right
    for once in (
        "t3 = t3.unsqueeze(0)",
        "energies = energies[None]",
        "t2 = t2.view(4, 2, 4, 16, 16)",
    ):  # another tensor under the name
        name = once.partition(" ")[0]
        written = answer(last=f"{name}.shape[4]").replace("        t4 =", f"        {once}\n        t4 =")
        assert within_shapes(written, SKETCH) == written
    for written in (right, answer(last="t3.shape[3] * other.shape[7] * self.shape[9]"), "class ModelNew(:\n"):
        assert within_shapes(written, SKETCH) == written
