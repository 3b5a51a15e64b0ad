"""Starter cards whose example is a module of Python that builds its own C++: against torch, at sizes that divide by nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from starter_examples import CARDS, CHECKS, checks, close, import_text, names, normal, run_check

pytestmark = pytest.mark.rotates


@checks("fold_parameters_lazily")
def _(k: Any, device: str) -> None:
    model, x = k.ModelNew(13), normal(5, 13)
    for _ in range(2):  # parameters that are loaded later must be seen
        state = {name: torch.rand_like(value) + 0.5 for name, value in model.state_dict().items() if value.is_floating_point()}
        model.load_state_dict(state, strict=False)
        mean, variance, weight, bias, gain = (
            state[name].double() for name in ("norm.running_mean", "norm.running_var", "norm.weight", "norm.bias", "gain")
        )
        want = F.batch_norm(x.double(), mean, variance, weight, bias, eps=1e-5) * gain
        with torch.no_grad():
            close(model(x), want)


@checks("library_product_one_tail_kernel")
def _(k: Any, device: str) -> None:
    model, x = k.ModelNew(20, 36, 4), normal(7, 20)
    with torch.no_grad():
        got = model(x)
        want = F.hardtanh(model.double().norm(model.linear(x.double())))
    close(got, want, 1e-5)


@checks("strides_instead_of_copies")
def _(k: Any, device: str) -> None:
    model, x, gate = k.ModelNew(), normal(9, 21), normal(9, 21)
    for a, b in ((x, gate), (x, gate[:, :1]), (x, gate[:1]), (x.t(), gate.t()), (x[:, 3:11], gate[:, 5:13])):
        assert torch.equal(model(a, b), a * b)


@checks("compile_time_shapes")
def _(k: Any, device: str) -> None:
    model = k.ModelNew()
    for width in (5, 48):
        x = normal(3, 4, width)
        close(model(x), x.double() / x.double().abs().amax(-1, keepdim=True))


@checks("workspace_kept_between_calls")
def _(k: Any, device: str) -> None:
    model = k.ModelNew()
    for rows, columns in ((4, 30), (4, 30), (2, 61), (5, 1)):
        x = normal(rows, columns)
        close(model(x), F.avg_pool1d(x.double()[None], 3, 1, 1)[0])


def test_every_module_is_checked() -> None:
    assert set(names("module")) <= set(CHECKS)


@pytest.mark.parametrize("name", names("module"))
def test_a_module_is_right(name: str, tmp_path: Path) -> None:
    run_check(name, import_text(CARDS[name].example, name, tmp_path), "cpu")
