"""The passes of the Triton backend, in the order in which they are applied."""

from __future__ import annotations

from bottega.compiler.compiler_pass import CompilerPass

PASSES: tuple[CompilerPass, ...] = (
    CompilerPass(
        "short_rows_packed",
        "Rows of at most 512 neighbouring elements.",
        "Pack several short rows into the tile of one program ({origin}).",
        ("triton_short_rows_packed",),
    ),
    CompilerPass(
        "online_softmax",
        "A maximum and the sum of exponentials below it, over rows too long for one block.",
        "Take the maximum and the sum of exponentials in one sweep, rescaling as the maximum grows ({origin}).",
        ("triton_online_softmax_long_rows",),
    ),
    CompilerPass(
        "single_sweep_moments",
        "A mean and squares about it, over rows too long for one block.",
        "Take mean and variance in one sweep about the mean of the row's first block ({origin}).",
        ("triton_group_norm_split_statistics",),
    ),
    CompilerPass(
        "split_rows",
        "Fewer programs than multiprocessors, rows of many thousand elements, and reductions that need one sweep.",
        "Split each long row over many programs and put their partial results together in a second kernel ({origin}).",
        ("triton_two_stage_reduction", "triton_group_norm_split_statistics"),
    ),
)
