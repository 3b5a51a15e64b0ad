"""What products and convolutions share: when a kernel of ours runs at all, and the tiles it takes."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import os

import torch
import triton

ALONE = False
"""Whether nothing but one part of this file is a kernel: then it computes what it can, also what the library does faster."""


def kernel_ready(*tensors):
    """Whether kernels take these tensors: of one type, fp32 or a half, on the device, no gradient."""
    given = [t for t in tensors if t is not None]
    if torch.is_grad_enabled() and any(t.requires_grad for t in given):
        return False
    if given[0].dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return False
    return all(
        t.dtype == given[0].dtype
        and t.device == given[0].device
        and (t.is_cuda or os.environ.get("TRITON_INTERPRET") == "1")
        and t.numel() > 0
        for t in given
    )


def library_is_best(x):
    """Whether the vendor's library has better kernels for large products of this type: of halves, unless ours must do."""
    return x.dtype != torch.float32 and not ALONE


def tiles(rows, columns, depth, batch=1):
    """Rows and columns of a tile, pieces of the depth, warps: large tiles where they fill the device, else small ones."""
    least = [min(64, max(16, triton.next_power_of_2(n))) if ALONE else 64 for n in (rows, columns)]
    if depth > 64:
        BM, BN = 128 if rows > 64 else least[0], 128 if columns > 64 else least[1]
        if triton.cdiv(rows, BM) * triton.cdiv(columns, BN) * batch >= 132:
            return BM, BN, 1, max(4, BM * BN // 2048)
    BM, BN = least
    count = triton.cdiv(rows, BM) * triton.cdiv(columns, BN) * batch
    if ALONE and depth <= 64 < columns and count >= 1056:  # little is computed for what is stored
        return BM, 128, 1, 4
    return BM, BN, max(1, min(8 if depth < 16384 else 32, 264 // count, depth // 256)), 4


def tile_warps(tile):
    """Warps for a tile that an answer chose: eight for a large one."""
    return 8 if tile[0] * tile[1] >= 16384 else 4


def half_tiles(rows, columns, depth, batch=1):
    """The same for halves, where products are cheap and operands are not: large tiles, of which few are cut into pieces."""
    BM, BN = (128 if n > 64 else max(16, triton.next_power_of_2(n)) for n in (rows, columns))
    if columns > 128 and triton.cdiv(rows, BM) * triton.cdiv(columns, 256) * batch >= 132:
        BN = 256
    count = triton.cdiv(rows, BM) * triton.cdiv(columns, BN) * batch
    return BM, BN, 1 if count >= 132 else max(1, min(16, 264 // count, depth // 512)), 8 if BM * BN >= 16384 else 4
