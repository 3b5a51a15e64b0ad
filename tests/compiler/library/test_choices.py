"""Choices of library functions compute what torch does; choices are offered that fit the operands."""

from __future__ import annotations

from pathlib import Path

import pytest
from triton_process import interpreted

from bottega.compiler.library.choices import FUNCTIONS, SHARED_BYTES, CallOperands

LIMIT = 5e-5


def labels(function: str, *shapes: tuple[int, ...], dtype: str = "float32", **options: object) -> list[str]:
    return [one.text for one in FUNCTIONS[function].settings(CallOperands(shapes, dtype, options))]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_choices_compute_what_torch_does() -> None:
    pytest.importorskip("triton", reason="the parts need Triton")
    errors: list[tuple[str, float]] = interpreted(Path(__file__).parent / "choices_interpreted.py")
    assert len(errors) > 80
    assert [(name, error) for name, error in errors if not error < LIMIT] == []


def test_few_tiles_are_offered_in_pieces_and_many_are_not() -> None:
    assert any("splits" in text for text in labels("linear", (64, 8192), (256, 8192)))
    assert not any("splits" in text for text in labels("linear", (8192, 1024), (4096, 1024)))


def test_a_half_product_is_offered_as_a_kernel_of_ours() -> None:
    assert all(text.startswith("own=True, tile=") for text in labels("linear", (4096, 512), (512, 512), dtype="bfloat16"))


def test_rows_of_a_program_fit_the_length_of_a_row() -> None:
    assert "rows=16, warps=4" in labels("layer_norm", (1000, 64), (64,), (64,), (1000, 64))
    assert not any(text.startswith("rows=16") for text in labels("layer_norm", (1000, 4096), (4096,), (4096,), (1000, 4096)))


def test_stages_fit_shared_memory() -> None:
    for one in FUNCTIONS["linear"].settings(CallOperands(((4096, 4096), (4096, 4096)), "float32")):
        values = dict(one.values)
        tile, stages = values["tile"], values.get("stages", 3)
        assert isinstance(tile, tuple) and (tile[0] + tile[1]) * tile[2] * 4 * int(str(stages)) <= SHARED_BYTES
