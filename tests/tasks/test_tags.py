"""Tags from source alone."""

import pytest

from bottega.core.errors import TaskError
from bottega.tasks.tags import tags_of


def tags_of_forward(body: str, init: str = "pass") -> set[str]:
    source = f"class Model:\n    def __init__(self):\n        {init}\n    def forward(self, x, index=None):\n        {body}\n"
    return {tag for tag in tags_of(source) if ":" not in tag}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return F.log_softmax(x, 1)", {"softmax"}),
        ("return x @ x.T", {"matmul"}),
        ("return torch.nn.functional.conv_transpose2d(x, x)", {"conv"}),
        ("return x.relu_()", {"activation"}),
        ("return x.view(x.size(0) * 2, -1)", set()),
        ("return x[: x.size(0) // 2 + 1]", set()),
        ("return x * 2", {"elementwise"}),
        ("return x[index]", {"indexing"}),
        ("return max(x, key=len)", set()),
        ("return x.amax(dim=(1, 2))", {"reduction"}),
        ("return F.mse_loss(x, x, reduction='none')", {"loss"}),
        ("return torch.softmax(x @ x.transpose(1, 2), -1) @ x", {"attention", "matmul", "softmax"}),
        ("return F.scaled_dot_product_attention(x, x, x)", {"attention"}),
        ("return F.max_pool3d(x, 2)", {"pooling"}),
        ("return torch.cumsum(x, 0)", {"scan"}),
        ("return self.norm(x)", set()),
    ],
)
def test_families_of_a_forward(body: str, expected: set[str]) -> None:
    assert tags_of_forward(body) == expected


@pytest.mark.parametrize(
    ("init", "family"),
    [
        ("nn.BatchNorm3d(4)", "norm"),
        ("nn.LSTMCell(4, 4)", "rnn"),
        ("nn.EmbeddingBag(4, 4)", "embedding"),
        ("nn.Linear(4, 4)", "matmul"),
    ],
)
def test_families_of_layers(init: str, family: str) -> None:
    assert tags_of_forward("return self.layer(x)", f"self.layer = {init}") == {family}


def test_inputs_are_not_operators_but_have_data_types() -> None:
    source = (
        "def get_inputs():\n    return [torch.randn(3).softmax(0).half(), torch.randint(0, 3, (4,)), torch.rand(3) > 0.5]\n"
    )
    assert tags_of(source, level=2, problem=7) == ("dtype:bool", "dtype:float16", "dtype:int64", "level:2", "problem:7")


def test_source_that_does_not_parse() -> None:
    with pytest.raises(TaskError):
        tags_of("def f(:")


def test_source_that_is_deeper_than_the_stack() -> None:
    assert tags_of("def forward(x):\n    return x" + ".y" * 1500) == ("dtype:float32",)
