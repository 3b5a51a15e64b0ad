from __future__ import annotations

from pathlib import Path

import pytest
from triton_process import interpreted

from bottega.compiler.backends.triton.grouped_product import tile_of
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.choices import Tile, Tuning
from bottega.compiler.draft_compiler import TILES
from bottega.compiler.expression import Load
from bottega.compiler.kernel import GroupedProduct
from bottega.compiler.plan import KernelPlan
from bottega.compiler.view import View, contiguous_strides

pytestmark = pytest.mark.rotates

HERE = Path(__file__).parent
SHAPES = {"x": (8192, 2048), "w": (8, 2048, 8192), "ends": (8,)}


@pytest.mark.parametrize("indices", ["usual", "large"])
def test_experts_are_two_kernels_of_ours_with_gather_and_gate_beside_torchs_products(indices: str) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("transformers")
    found = interpreted(HERE / "grouped_interpreted.py", indices)
    for kind, drafts in found.items():
        own = [(source, error) for technique, source, error in drafts if "own grouped" in technique]
        assert kind != "bfloat16" or (own and "own grouped" not in drafts[0][0] and "own grouped" in drafts[1][0])
        for source, error in own:
            assert error < 4, source
            assert "F.grouped_mm" not in source and source.count("GROUPS: tl.constexpr") == 2
            gathered, gated = "tl.load(x_ptr + k + ", "acc2 = tl.dot("
            assert source.count(gathered) == 1 and source.count(gated) == 1
    assert own


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("given", [None, *TILES])
def test_tiles_of_one_and_of_two_products_fit_the_shared_memory_of_a_block(given: Tile | None, parts: int) -> None:
    rows, matrices, ends = (View(name, shape, contiguous_strides(shape)) for name, shape in SHAPES.items())
    kernel = GroupedProduct(8, 8192, 4096, 2048, parts, Load(rows, "bfloat16"), matrices, ends, "bfloat16", ())
    tile = tile_of(FileWriter(KernelPlan({}, (), "", tuning=Tuning(given)), frozenset()), kernel)
    assert 2 * tile.stages * tile.depth * (tile.rows + parts * tile.columns) <= 227 << 10
    assert given is None or tile.columns * parts == given.columns
