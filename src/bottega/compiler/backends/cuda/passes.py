"""The passes of the CUDA backend, in the order in which they are applied."""

from __future__ import annotations

from bottega.compiler.compiler_pass import CompilerPass

PASSES: tuple[CompilerPass, ...] = (
    CompilerPass(
        "grid_planes",
        "An operand of an elementwise kernel repeats over planes of at least 64 elements, of which there are at most 65535.",
        "Take the plane of {origin} from the grid instead of dividing for every element.",
        ("cuda_plane_index_from_grid",),
    ),
    CompilerPass(
        "vector_loads",
        "An elementwise kernel over dense fp32 tensors whose count divides by four.",
        "Load and store {origin} as float4: a quarter of the memory instructions.",
        ("cuda_float4_grid_stride",),
    ),
    CompilerPass(
        "warp_per_row",
        "Rows of at most 1024 elements.",
        "Give each row of {origin} a warp: its sums are shuffles, without a barrier.",
        ("cuda_warp_per_row_shuffle",),
    ),
    CompilerPass(
        "row_in_shared",
        "Two sweeps over a row of at most 12288 elements need the same costly value of each element.",
        "Keep the computed row of {origin} in shared memory, so that later sweeps only read it back.",
        ("cuda_block_reduce_row",),
    ),
    CompilerPass(
        "block_scan",
        "Sums in fp32 that run along memory over at least 64 elements.",
        "Scan rows of {origin} by whole blocks, tile after tile, instead of one thread for each row.",
        ("cuda_block_scan",),
    ),
)
