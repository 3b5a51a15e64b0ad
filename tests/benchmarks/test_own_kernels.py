"""`own = True` in an answer's class: the compiler writes the kernels that the answer asks for."""

from __future__ import annotations

from choice_distil import read_answer
from module_task import module_task
from own_kernels import LINE, own_kernels_change, with_own_kernels

from bottega.compiler.answer_choices import changed

TASK = module_task("torch.relu(torch.matmul(x, y) * 1.5)", "torch.randn(64, 32), torch.randn(32, 48)", "x, y")
ANSWER = """class ModelNew(Model):
    def forward(self, x, y):
        t1 = matmul(x, y)
        return torch.relu(t1 * 1.5)
"""


def with_line(answer: str) -> str:
    change = own_kernels_change(answer)
    assert change is not None
    return changed(answer, [change])


def test_an_answer_that_asks_gets_kernels_of_its_own_with_what_follows_fused() -> None:
    source = read_answer(f"```python\n{with_line(ANSWER)}```", TASK)
    assert "@triton.jit" in source and "tl.dot" in source and "t1 = matmul(" not in source
    assert source.count("_kernel[") == 1, "the activation has a launch of its own"


def test_one_that_does_not_ask_keeps_its_calls() -> None:
    source = read_answer(f"```python\n{ANSWER}```", TASK)
    assert "t1 = matmul(x, y)" in source
    assert with_own_kernels(ANSWER + f"# {LINE}\n", TASK) == ANSWER + f"# {LINE}\n"


def test_the_line_is_a_change_that_is_made_once() -> None:
    asking = with_line(ANSWER)
    assert asking.splitlines()[1].strip() == LINE
    assert own_kernels_change(asking) is None
    assert own_kernels_change("def forward(x): ...") is None


def test_where_nothing_is_heavy_the_answer_stays() -> None:
    light = TASK.replace("torch.matmul(x, y)", "(x[:, :1] + y[:1])")
    asking = with_line(ANSWER)
    assert with_own_kernels(asking, light) == asking
