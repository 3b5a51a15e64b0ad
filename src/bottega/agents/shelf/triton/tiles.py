"""What products and convolutions share: when a kernel of ours runs at all, and the tiles it takes."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import os

import torch
import triton


def kernel_ready(*tensors, limit=2**31 - 1):
    """Whether kernels take these tensors: fp32, on the device, not empty, no gradient wanted, offsets that fit."""
    given = [t for t in tensors if t is not None]
    if torch.is_grad_enabled() and any(t.requires_grad for t in given):
        return False
    return all(
        t.dtype == torch.float32
        and t.device == given[0].device
        and (t.is_cuda or os.environ.get("TRITON_INTERPRET") == "1")
        and 0 < t.numel() <= limit
        and sum((n - 1) * s for n, s in zip(t.shape, t.stride())) < limit
        for t in given
    )


def tiles(rows, columns, depth, batch=1):
    """Rows and columns of a tile, pieces of the depth, warps: large tiles where they fill the device, else small ones."""
    if depth > 64:
        BM, BN = 128 if rows > 64 else 64, 128 if columns > 64 else 64
        if triton.cdiv(rows, BM) * triton.cdiv(columns, BN) * batch >= 132:
            return BM, BN, 1, max(4, BM * BN // 2048)
    count = triton.cdiv(rows, 64) * triton.cdiv(columns, 64) * batch
    return 64, 64, max(1, min(8 if depth < 16384 else 32, 264 // count, depth // 256)), 4
