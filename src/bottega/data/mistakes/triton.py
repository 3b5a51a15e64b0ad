"""Mistakes that only Triton kernels have: masks, neutral values, compile-time arguments, programs and precision."""

from __future__ import annotations

from bottega.data.mistakes.mistake import anywhere, kernels, mistake, module, python_kernels


def _whole(source: str) -> list[tuple[int, int]]:
    return [(0, len(source))]


TRITON = (
    mistake(
        "missing_mask",
        python_kernels,
        "Loads and stores at the edge are masked.",
        anywhere(r", mask=[^,()\n]+(?:\([^()\n]*\)[^,()\n]*)?, other=[^,()\n]+(?:\([^()\n]*\))?(?=\))", "", kernels),
        anywhere(r", mask=[^,()\n]+(?:\([^()\n]*\)[^,()\n]*)?(?=\))", "", kernels),
    ),
    mistake(
        "wrong_masked_value",
        python_kernels,
        "Masked lanes hold the neutral value of what is done with them.",
        anywhere(r"other=-?float\(['\"]-?inf['\"]\)", "other=0.0", kernels),
        anywhere(r"other=0(?:\.0)?(?=[,)])", "other=1.0", kernels),
    ),
    mistake(
        "missing_constexpr",
        python_kernels,
        "Block sizes are compile-time arguments.",
        anywhere(r"(\w+): ?tl\.constexpr", r"\1", kernels),
    ),
    mistake(
        "block_no_power_of_two",
        python_kernels,
        "A range has a power of two for its length.",
        anywhere(
            r"(BLOCK\w*|block\w*|B[MNK]) ?= ?(64|128|256|512|1024|2048|4096|8192)\b",
            lambda m: f"{m.group(1)}={int(m.group(2)) - 24}",
            _whole,
        ),
    ),
    mistake(
        "grid_too_small",
        python_kernels,
        "The grid is rounded up, so that the last block is computed.",
        anywhere(r"triton\.cdiv\(([^(),]+), ([^(),]+)\)", r"(\1) // (\2)", module),
        anywhere(r"\(\((\w+),\)\)|\[\((\w+),\)\]", lambda m: f"[({m.group(2)} - 1,)]" if m.group(2) else None, module),
    ),
    mistake(
        "wrong_program_axis",
        python_kernels,
        "Each program reads its own axis of the grid.",
        anywhere(r"tl\.program_id\((?:axis=)?([012])\)", lambda m: f"tl.program_id({(int(m.group(1)) + 1) % 2})", kernels),
    ),
    mistake(
        "low_precision",
        python_kernels,
        "Products and sums are kept in full precision.",
        anywhere(r"input_precision ?= ?['\"](?:ieee|tf32x3)['\"]", 'input_precision="tf32"', _whole),
        anywhere(r"tl\.float32", "tl.float16", kernels),
        anywhere(r"(= tl\.load\([^\n]*\))$", r"\1.to(tl.float16)", kernels),
    ),
    mistake(
        "wrong_reduction_axis",
        python_kernels,
        "The reduction runs over the axis of the original.",
        anywhere(
            r"(tl\.(?:sum|max|min)\([^\n]*?)(?:axis ?= ?)?([01])\)",
            lambda m: f"{m.group(1)}axis={1 - int(m.group(2))})",
            kernels,
        ),
    ),
    mistake(
        "torch_call_in_kernel",
        python_kernels,
        "Inside a kernel only Triton's own functions exist.",
        anywhere(r"tl\.(exp|sqrt|log|abs|maximum)\(", r"torch.\1(", kernels),
    ),
)
