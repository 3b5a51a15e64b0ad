"""A task's identity survives reformatting and nothing else; what it lacks is said in one line."""

from __future__ import annotations

import pytest

from bottega.core.candidate import SOURCE_LIMIT
from bottega.core.errors import TaskError
from bottega.core.task import Task

SOURCE = '''
"""What the task is about."""
import torch
import torch.nn as nn


class Model(nn.Module):
    """Doubles."""

    def forward(self, x):
        # twice
        return x * 2


def get_inputs():
    return [torch.rand(4, 4)]


def get_init_inputs():
    return []
'''


def test_identity_ignores_comments_docstrings_white_space_and_quotes() -> None:
    other = SOURCE.replace('"""What the task is about."""\n', "").replace('    """Doubles."""\n', "")
    other = other.replace("        # twice\n", "").replace("\n\n\n", "\n\n").replace("(4, 4)", "( 4,\n 4 )")
    assert other != SOURCE
    assert Task(other).id == Task(SOURCE).id


def test_identity_ignores_the_label_but_not_the_code() -> None:
    assert Task(SOURCE, name="one", origin="here", level=1).id == Task(SOURCE, name="two", tags=("x",)).id
    assert Task(SOURCE.replace("x * 2", "x * 3")).id != Task(SOURCE).id
    assert Task(SOURCE.replace("(4, 4)", "(4, 8)")).id != Task(SOURCE).id


def test_identity_is_sixteen_hexadecimal_digits() -> None:
    identity = Task(SOURCE).id
    assert len(identity) == 16
    assert set(identity) <= set("0123456789abcdef")


def test_a_string_that_is_no_docstring_counts() -> None:
    assert Task(SOURCE + "name = 'a'\n").id != Task(SOURCE + "name = 'b'\n").id


def test_validate_returns_the_task() -> None:
    task = Task(SOURCE)
    assert task.validate() is task


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", ["empty"]),
        ("   \n\t\n", ["empty"]),
        ("def f(:\n", ["line 1", "does not parse"]),
        ("x = 1\n\nclass Model(\n", ["line 3", "does not parse"]),
        ("x = '\0'", ["does not parse"]),
        ("class Model: pass\ndef get_inputs(): pass\n", ["defines no get_init_inputs", "class Model, get_inputs() and"]),
        ("x = 1\n", ["defines no Model and no get_inputs and no get_init_inputs"]),
        ("def outer():\n    class Model: pass\n    def get_inputs(): pass\n    def get_init_inputs(): pass\n", ["no Model"]),
        ("(" * 5000 + ")" * 5000, ["does not parse"]),
    ],
)
def test_validate_says_what_is_wrong_in_one_line(source: str, words: list[str]) -> None:
    with pytest.raises(TaskError) as raised:
        Task(source, name="mine", origin="folder/mine.py").validate()
    text = str(raised.value)
    assert text.startswith("folder/mine.py: ")
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "source",
    [
        "from somewhere import Model, get_inputs\nget_init_inputs = lambda: []\n",
        "import a as Model\nget_inputs: object = None\nget_init_inputs = get_inputs\n",
        "if True:\n    class Model: pass\nelse:\n    Model = None\ntry:\n    get_inputs = get_init_inputs = None\nexcept ValueError:\n    pass\n",
        "Model, (get_inputs, get_init_inputs) = 1, (2, 3)\n",
        "try:\n    import fast\nexcept ImportError:\n    Model = get_inputs = None\nmatch 1:\n    case _:\n        get_init_inputs = None\n",
        "from somewhere import *\ndef get_init_inputs(): return []\n",
    ],
)
def test_validate_knows_every_way_to_bind_a_name(source: str) -> None:
    Task(source).validate()


def test_label_prefers_the_origin() -> None:
    assert Task(SOURCE, name="mine").label == "mine"
    assert Task(SOURCE, name="mine", origin="over/there.py").label == "over/there.py"


@pytest.mark.parametrize(
    "source",
    [
        "x = " + "1 + " * 2000 + "1",
        "x = 0x" + "f" * 20_000,
        "x = " + "(" * 5000,
        "x = " + "9" * 10_000,
        "#" * (SOURCE_LIMIT + 1),
    ],
    ids=["a long sum", "a long number", "nested", "a long decimal number", "too large"],
)
def test_text_that_python_itself_cannot_handle_is_no_task(source: str) -> None:
    with pytest.raises(TaskError, match="x"):
        _ = Task(source, name="x").id
