"""Mistakes that only Triton kernels have: masks, neutral values, compile-time arguments, programs and precision."""

from __future__ import annotations

from bottega.data.mistakes.mistake import Mistake, anywhere, first_of, kernels, module

ONLY = ("triton",)


def _whole(source: str) -> list[tuple[int, int]]:
    return [(0, len(source))]


TRITON = (
    Mistake(
        "missing_mask",
        ONLY,
        "Loads and stores at the edge are masked.",
        first_of(
            anywhere(r", mask=[^,()\n]+(?:\([^()\n]*\)[^,()\n]*)?, other=[^,()\n]+(?:\([^()\n]*\))?(?=\))", "", kernels),
            anywhere(r", mask=[^,()\n]+(?:\([^()\n]*\)[^,()\n]*)?(?=\))", "", kernels),
        ),
    ),
    Mistake(
        "wrong_masked_value",
        ONLY,
        "Masked lanes hold the neutral value of what is done with them.",
        first_of(
            anywhere(r"other=-?float\(['\"]-?inf['\"]\)", "other=0.0", kernels),
            anywhere(r"other=0(?:\.0)?(?=[,)])", "other=1.0", kernels),
        ),
    ),
    Mistake(
        "missing_constexpr",
        ONLY,
        "Block sizes are compile-time arguments.",
        anywhere(r"(\w+): ?tl\.constexpr", r"\1", kernels),
    ),
    Mistake(
        "block_no_power_of_two",
        ONLY,
        "A range has a power of two for its length.",
        anywhere(
            r"(BLOCK\w*|block\w*|B[MNK]) ?= ?(64|128|256|512|1024|2048|4096|8192)\b",
            lambda m: f"{m.group(1)}={int(m.group(2)) - 24}",
            _whole,
        ),
    ),
    Mistake(
        "grid_too_small",
        ONLY,
        "The grid is rounded up, so that the last block is computed.",
        first_of(
            anywhere(r"triton\.cdiv\(([^(),]+), ([^(),]+)\)", r"(\1) // (\2)", module),
            anywhere(r"\(\((\w+),\)\)|\[\((\w+),\)\]", lambda m: f"[({m.group(2)} - 1,)]" if m.group(2) else None, module),
        ),
    ),
    Mistake(
        "wrong_program_axis",
        ONLY,
        "Each program reads its own axis of the grid.",
        anywhere(r"tl\.program_id\((?:axis=)?([012])\)", lambda m: f"tl.program_id({(int(m.group(1)) + 1) % 2})", kernels),
    ),
    Mistake(
        "low_precision",
        ONLY,
        "Products and sums are kept in full precision.",
        first_of(
            anywhere(r"input_precision ?= ?['\"](?:ieee|tf32x3)['\"]", 'input_precision="tf32"', _whole),
            anywhere(r"tl\.float32", "tl.float16", kernels),
            anywhere(r"(= tl\.load\([^\n]*\))$", r"\1.to(tl.float16)", kernels),
        ),
    ),
    Mistake(
        "wrong_reduction_axis",
        ONLY,
        "The reduction runs over the axis of the original.",
        anywhere(
            r"(tl\.(?:sum|max|min)\([^\n]*?)(?:axis ?= ?)?([01])\)",
            lambda m: f"{m.group(1)}axis={1 - int(m.group(2))})",
            kernels,
        ),
    ),
    Mistake(
        "torch_call_in_kernel",
        ONLY,
        "Inside a kernel only Triton's own functions exist.",
        anywhere(r"tl\.(exp|sqrt|log|abs|maximum)\(", r"torch.\1(", kernels),
    ),
)
