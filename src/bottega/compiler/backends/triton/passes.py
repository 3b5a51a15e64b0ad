"""The passes of the Triton backend, in the order in which they are applied."""

from __future__ import annotations

from bottega.compiler.activated_products import ACTIVATED_PRODUCTS
from bottega.compiler.backends.triton.even_rows import EVEN_ROWS
from bottega.compiler.backends.triton.side_by_side import SIDE_BY_SIDE
from bottega.compiler.biases import BIASES_APART
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.planner_passes import OWN_RECURRENCE, SHARED_RESULTS
from bottega.compiler.summed_products import SUMMED_PRODUCTS

PASSES: tuple[CompilerPass, ...] = (
    CompilerPass(
        OWN_RECURRENCE,
        "An LSTM, GRU or plain recurrent layer in fp32, without projections and without dropout between layers.",
        "Multiply the inputs of all steps at once and launch a kernel of our own for each step ({origin}), with all gates of a unit in one program.",
    ),
    SHARED_RESULTS,
    SUMMED_PRODUCTS,
    ACTIVATED_PRODUCTS,
    BIASES_APART,
    CompilerPass(
        EVEN_ROWS,
        "Rows in registers whose length is no power of two: sums and extremes of floats.",
        "Cut each row into equal pieces that leave no lane idle ({origin}).",
        ("compile_time_shapes",),
    ),
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
    CompilerPass(
        SIDE_BY_SIDE,
        "Two kernels that follow each other over lines of the same length, neither of which needs what the other makes.",
        "Launch two kernels that do not need each other as one ({origin}).",
    ),
    CompilerPass(
        "product_as_rows",
        "Products with at most four rows or columns.",
        "Write a product with so few columns as reductions, one for each result ({origin}).",
        ("linear_then_sum_is_dot",),
    ),
    CompilerPass(
        "taps_outside",
        "Convolutions with at least 16 channels for each group.",
        "Walk the window tap by tap with the channels inside, over weights packed in that order ({origin}).",
        ("triton_implicit_gemm_conv",),
    ),
    CompilerPass(
        "phases",
        "Transposed convolutions with a stride, without dilation and groups.",
        "Let each program compute outputs that lie a stride apart: they see the same taps, and no other is multiplied ({origin}).",
    ),
    CompilerPass(
        "tf32x3",
        "Products of fp32 on tensor cores of the Ampere generation or later.",
        "Compute fp32 products on tensor cores as three TF32 products, which keeps fp32's accuracy ({origin}).",
        ("triton_dot_precision",),
    ),
    CompilerPass(
        "depth_major",
        "fp32 products as three TF32 products whose second operand does not lie along the depth.",
        "Turn the product round, or copy one operand, so that the second operand lies along the depth ({origin}).",
        ("triton_dot_precision",),
    ),
    CompilerPass(
        "tuned_tiles",
        "Products and convolutions whose result has tiles enough for the device.",
        "Take tiles, warps and stages that keep the tensor cores fed ({origin}).",
        ("triton_matmul_epilogue",),
    ),
    CompilerPass(
        "grouped_order",
        "Products with at least eight tiles in both directions.",
        "Order programs in groups, so that those that run together share operands in L2 ({origin}).",
        ("triton_grouped_program_order",),
    ),
    CompilerPass(
        "even_tiles",
        "Products whose sizes the tiles divide.",
        "Drop the masks: the tiles divide the sizes ({origin}).",
        ("compile_time_shapes",),
    ),
    CompilerPass(
        "split_k",
        "Products with few tiles and a long depth that divides evenly.",
        "Split the depth over programs and add the partial products in a second kernel ({origin}).",
        ("triton_split_k",),
    ),
    CompilerPass(
        "causal_blocks",
        "Causal attention.",
        "Stop at the diagonal: key blocks that no query of the block may see are not visited ({origin}).",
        ("triton_causal_two_loops",),
    ),
)
