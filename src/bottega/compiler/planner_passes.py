"""The passes of the planner: what each fuses or writes, and which heavy operators are ours when it is enabled."""

from __future__ import annotations

from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.grouped_products import OWN_GROUPED
from bottega.compiler.kernel import Attention, Convolution, GroupedProduct, Kernel, Product
from bottega.compiler.matmul_rule import pays

OWN_PRODUCT, CHUNKED_ROWS, OWN_RECURRENCE = "own_product", "chunked_rows", "own_recurrence"
IN_PLACE, SHORT_ROWS = "in_place", "short_rows"
SEPARATE_WINDOWS = "separate_windows"
FOR_THREADS = "for_threads"
"""On for every plan that a processor's threads run: they are fewer than a GPU's programs, and a row that stays in a cache is worth more."""
SHARED_RESULTS = CompilerPass(
    "shared_results",
    "An elementwise result that is returned, or that several kernels read, and one of them over the same elements.",
    "Compute {origin} in one pass over memory, and store on the way what others read.",
)
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
    CompilerPass(
        CHUNKED_ROWS,
        "A linear layer left to the library whose result is far larger than a cache, and is read by one row program that stores no elements.",
        "Multiply and reduce some rows at a time ({origin}), so that the large result never lies in memory as a whole.",
    ),
    CompilerPass(
        OWN_PRODUCT,
        "Matrix products whose operands and epilogue are understood; in Triton only of fp32, with all sides at least 128 and lying well.",
        "Write the matrix product myself and fuse what follows into its epilogue ({origin}).",
        ("triton_matmul_epilogue", "matmul_packed_panels", "cuda_register_tile_matmul"),
    ),
    CompilerPass(
        "own_convolution",
        "Convolutions whose epilogue is understood.",
        "Write the convolution myself and fuse what follows into it ({origin}).",
        ("triton_implicit_gemm_conv", "conv2d_direct_register_tile", "cuda_conv_halo_tile"),
    ),
    CompilerPass(
        "own_attention",
        "Attention without dropout.",
        "Write attention as one streaming kernel that never stores the scores.",
        ("triton_flash_attention", "attention_query_tiles"),
    ),
)
OWN: tuple[tuple[type, str], ...] = ((Product, OWN_PRODUCT), (Convolution, "own_convolution"), (Attention, "own_attention"))


OWN_PASSES = frozenset(name for _, name in OWN)
FUSED = CompilerPass(
    "fused",
    "Anything around products that are left to the vendor's library.",
    "Fuse what lies around the products into as few kernels as it takes ({origin}).",
)
SHORT_PRODUCT = CompilerPass(
    "own_short_product",
    "Matrix products that gain by an epilogue in the same kernel, by the rule of `product_rule`.",
    "Write the products that memory limits myself and fuse what follows into them ({origin}).",
)
DEPTHWISE = CompilerPass(
    "own_depthwise",
    "Convolutions with a channel for each group.",
    "Write the depthwise convolutions myself and fuse what follows into them ({origin}).",
)


LIBRARY_FUNCTIONS = CompilerPass(
    "shelved_parts",
    "Operators that the kernel library has a function for.",
    "Call the kernel library for the heavy operators and fuse the rest ({origin}).",
    ("library_product_one_tail_kernel", "triton_matmul_epilogue", "triton_implicit_gemm_conv"),
)


def is_ours(kernel: Kernel, passes: frozenset[str]) -> bool:
    """Whether the enabled passes write this heavy operator."""
    if isinstance(kernel, Product) and SHORT_PRODUCT.name in passes and pays(kernel):
        return True
    if isinstance(kernel, Convolution) and DEPTHWISE.name in passes and kernel.weight.shape[1] == 1 < kernel.groups:
        return not kernel.transposed
    if isinstance(kernel, GroupedProduct):
        return OWN_GROUPED.name in passes
    return any(isinstance(kernel, kind) and name in passes for kind, name in OWN)
