"""The passes of the C++ backend, in the order in which they are applied."""

from __future__ import annotations

from bottega.compiler.backends.cpp.matmul import PACKED_ONCE
from bottega.compiler.backends.cpp.module import FREED_EARLY
from bottega.compiler.backends.cpp.wide_products import WIDE_PRODUCTS
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.padded_convolutions import PADDED_CONVOLUTIONS
from bottega.compiler.planner_passes import IN_PLACE, OWN_RECURRENCE, SEPARATE_WINDOWS, SHARED_RESULTS, SHORT_ROWS

PASSES: tuple[CompilerPass, ...] = (
    CompilerPass(
        OWN_RECURRENCE,
        "An LSTM, GRU or plain recurrent layer in fp32, without projections and without dropout between layers.",
        "Multiply the inputs of all steps at once and walk the steps ({origin}) in one kernel, with the recurrent weights packed for registers.",
    ),
    CompilerPass(
        SEPARATE_WINDOWS,
        "A transposed convolution in fp32 whose windows are as large as its stride, without padding and groups.",
        "Write {origin} as the library's product, each of whose elements goes to one place of the result.",
    ),
    PADDED_CONVOLUTIONS,
    CompilerPass(
        WIDE_PRODUCTS,
        "A product, convolution or attention of halves that is left to torch, on a CPU without instructions for them.",
        "Let the library compute products of halves in fp32: it has no kernels for them on this CPU.",
    ),
    CompilerPass(
        SHORT_ROWS,
        "A reduction over at most 8 elements, with a dimension of at least 8 beside it.",
        "Write the few terms of {origin} out, and make vectors along the other dimensions.",
    ),
    SHARED_RESULTS,
    CompilerPass(
        IN_PLACE,
        "An input that forward changes, each element without any other element of it.",
        "Store {origin} where the input lies, without a tensor in between and a copy.",
    ),
    CompilerPass(
        "simd_functions",
        "The kernel applies exp, expm1, log, log1p, tanh, sigmoid, erf, sin or cos in fp32.",
        "Replace libm's scalar functions in {origin} by branch-free polynomials that the compiler vectorises.",
        ("exp_polynomial_simd", "tanh_two_range_simd", "gelu_erf_simd"),
    ),
    CompilerPass(
        "simd_reductions",
        "A row is reduced along memory.",
        "Reduce rows of {origin} in float lanes over short blocks, and add the blocks up in double.",
        ("sum_in_lanes_then_double", "argmax_value_then_index"),
    ),
    CompilerPass(
        "elements_once",
        "Two sweeps over a row need the same costly value of each element, in fp32.",
        "Compute each element of {origin} once, keep it in the result, and let the last sweep only scale it.",
        ("softmax_one_exp_per_element",),
    ),
    CompilerPass(
        "column_tiles",
        "Rows lie across memory, and a kept dimension of at least 8 along it.",
        "Reduce {origin} for 256 neighbouring columns side by side, so that every cache line is used whole.",
        ("outer_reduction_private_rows",),
    ),
    CompilerPass(
        "split_rows",
        "At most 8 rows of at least 65536 elements, or fewer than 8 tiles of columns.",
        "Share each long row of {origin} among the threads; there are too few rows for one each.",
        ("reduction_split_over_threads",),
    ),
    CompilerPass(
        "pool_rows_then_columns",
        "A window over two or three dimensions, wider than one, with rows of at least 8 outputs.",
        "Pool {origin} over rows first, vectorised along memory, then over columns in the one row that is left.",
        ("pool_columns_then_rows",),
    ),
    CompilerPass(
        "scan_chunks",
        "At most 8 rows of at least 65536 elements are scanned forward.",
        "Scan {origin} in two passes: sums of chunks in parallel, then every chunk from what came before it.",
        ("scan_two_pass_threads",),
    ),
    CompilerPass(
        "stream_weights",
        "A product with at most 16 rows, both operands dense along the depth.",
        "Stream the weights of {origin} once, each against four rows at a time.",
        ("linear_few_rows_stream_weights",),
    ),
    CompilerPass(
        "packed_panels",
        "A product of at least 4 rows and 8 columns in fp32 or narrower.",
        "Pack one operand of {origin} into panels and keep a tile of a few rows by two vectors in registers.",
        ("matmul_packed_panels",),
    ),
    CompilerPass(
        PACKED_ONCE,
        "A product of 4 to 512 rows with a weight of the module, in fp32 or bfloat16.",
        "Pack the weight of {origin} once, and again when it has changed.",
    ),
    CompilerPass(
        "conv_register_tile",
        "A convolution in fp32 or narrower whose groups have several outputs, with at least 8 outputs a channel.",
        "Pad the input once and keep some channels by a few vectors of outputs of {origin} in registers.",
        ("conv2d_direct_register_tile",),
    ),
    CompilerPass(
        "depthwise_plane",
        "A depthwise convolution in fp32 or narrower with rows of at least 8 outputs.",
        "Give each thread a padded plane of {origin}, so that no tap needs a test.",
        ("depthwise_conv_padded_plane",),
    ),
    CompilerPass(
        "transposed_phases",
        "A transposed convolution in fp32 or narrower.",
        "Gather {origin} phase by phase: each residue of the output modulo the stride is a dense sum along the row.",
        ("transposed_conv_by_phase",),
    ),
    CompilerPass(
        "query_tiles",
        "Attention in fp32 or narrower.",
        "Take six queries at a time against packed keys and values, so that the score matrix is never stored.",
        ("attention_query_tiles",),
    ),
    CompilerPass(
        "grain_threshold",
        "A kernel has at most 65536 elements.",
        "Keep {origin} on one thread when it is small: waking a team costs more than the work.",
        ("openmp_grain_threshold",),
    ),
    CompilerPass(
        FREED_EARLY,
        "A result of at least 16384 elements that is not returned.",
        "Give the memory of large results back after their last use, so that the next result takes the same pages, still in the cache.",
    ),
)
