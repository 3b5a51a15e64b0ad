"""The kernel library's sweeps (normalisations, poolings, scans, softmax, extremes) by Triton's interpreter, and what they leave to torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from triton_process import interpreted

pytestmark = pytest.mark.slow  # the interpreter takes its time over so many shapes

torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="the parts need Triton")

LIMIT = 1e-5


@pytest.fixture(scope="module")
def found() -> dict[str, list[tuple[str, float]]]:
    """In a process of its own: the interpreter is chosen when Triton is imported."""
    errors: dict[str, list[tuple[str, float]]] = interpreted(Path(__file__).parent / "sweeps_interpreted.py")
    return errors


@pytest.mark.parametrize("function", ["normalisations", "poolings", "scans", "softmaxes", "losses", "places"])
def test_parts_compute_what_torch_does(found: dict[str, list[tuple[str, float]]], function: str) -> None:
    assert found[function]
    assert [(name, error) for name, error in found[function] if not error < LIMIT] == []


def test_what_needs_a_gradient_is_left_to_torch() -> None:
    from bottega.compiler.library.triton import normalisation, softmax

    x = torch.randn(3, 4, 5, requires_grad=True)
    for value in (
        softmax.softmax(x, 1),
        normalisation.group_norm(x, 2),
        normalisation.batch_norm(x, None, None, training=True),
    ):
        assert value.grad_fn is not None


def test_other_types_and_options_are_left_to_torch() -> None:
    from bottega.compiler.library.triton import extremes, pooling, scan

    assert torch.equal(scan.cumsum(torch.arange(5), 0), torch.arange(5).cumsum(0))
    assert extremes.argmax(torch.tensor([[1, 3], [4, 2]]), 1).tolist() == [1, 0]
    values, places = pooling.max_pool2d(torch.randn(1, 4, 4), 2, return_indices=True)
    assert values.shape == places.shape == (1, 2, 2)
    assert pooling.adaptive_avg_pool1d(torch.randn(2, 3, 5), 2).shape == (2, 3, 2)
