"""The passes of the planner: what each fuses or writes, and which heavy operators are ours when it is enabled."""

from __future__ import annotations

from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.kernel import Attention, Convolution, Kernel, Product

PASSES: tuple[CompilerPass, ...] = (
    CompilerPass(
        "fuse_elementwise",
        "Elementwise operators that follow each other over the same elements, each result used once.",
        "Fuse the elementwise operators ({origin}) into one pass over memory.",
        ("elementwise_chain_one_pass", "library_product_one_tail_kernel"),
    ),
    CompilerPass(
        "fuse_rows",
        "Reductions over the same rows and the elementwise work around them, where there are enough rows to keep the device busy.",
        "Do the whole row ({origin}) in one kernel: reductions and what uses them.",
        ("triton_residual_layer_norm", "norm_moments_by_blocks", "cuda_block_reduce_row"),
    ),
    CompilerPass(
        "fuse_windows",
        "Elementwise work right before or after a pooling or a scan, where windows do not make it compute much twice.",
        "Fuse the elementwise work into the pooling or scan ({origin}).",
        ("triton_window_pool", "pool_columns_then_rows", "triton_scan_with_carry"),
    ),
    CompilerPass(
        "statistics_apart",
        "Few long rows that are normalised: too few to keep the device busy one program each.",
        "Compute the statistics in a kernel of their own and normalise elementwise.",
        ("triton_group_norm_split_statistics", "triton_two_stage_reduction"),
    ),
)
OWN_PRODUCT = CompilerPass(
    "own_product",
    "Matrix products whose operands and epilogue are understood.",
    "Write the matrix product myself and fuse what follows into its epilogue ({origin}).",
    ("matmul_packed_panels",),
)
OWN_CONVOLUTION = CompilerPass(
    "own_convolution",
    "Convolutions whose epilogue is understood.",
    "Write the convolution myself and fuse what follows into it ({origin}).",
    ("conv2d_direct_register_tile",),
)
OWN_ATTENTION = CompilerPass(
    "own_attention",
    "Attention without dropout.",
    "Write attention as one streaming kernel that never stores the scores.",
    ("triton_flash_attention", "attention_query_tiles"),
)
HEAVY: dict[type, CompilerPass] = {Product: OWN_PRODUCT, Convolution: OWN_CONVOLUTION, Attention: OWN_ATTENTION}
"""Operators that the vendor's libraries have good kernels for, and the pass with which ours is used instead."""
LIBRARY_FUNCTIONS = CompilerPass(
    "shelved_parts",
    "Operators that the kernel library has a function for.",
    "Call the kernel library for the heavy operators and fuse the rest ({origin}).",
    ("library_product_one_tail_kernel", "triton_matmul_epilogue", "triton_implicit_gemm_conv"),
)


def is_ours(kernel: Kernel | None, passes: frozenset[str]) -> bool:
    """Whether the enabled passes write this heavy operator."""
    return type(kernel) in HEAVY and HEAVY[type(kernel)].name in passes
