"""What all sweeps over memory share: which tensors they take, and into how many chunks a row is cut."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import os

import torch
import triton

SWEEP_PROGRAMS = 132 * 16


def sweepable(*tensors):
    """Whether Triton may sweep these tensors, of which the first is the input; all else is left to torch."""
    given = [tensor for tensor in tensors if tensor is not None]
    return (
        all(tensor.is_cuda or os.environ.get("TRITON_INTERPRET") == "1" for tensor in given)
        and all(tensor.device == given[0].device for tensor in given)
        and given[0].dtype in (torch.float32, torch.float16, torch.bfloat16)
        and given[0].numel() > 0
        and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given))
    )


def sweep_chunks(rows, size, block, most=1024):
    """Chunk length (whole blocks) and count such that rows times chunks keep the device busy."""
    count = min(triton.cdiv(size, block), max(1, triton.cdiv(SWEEP_PROGRAMS, rows)), most)
    chunk = triton.cdiv(triton.cdiv(size, count), block) * block
    return chunk, triton.cdiv(size, chunk)


def sweep_warps(elements):
    """Warps for a tile that is held in registers."""
    return 4 if elements <= 4096 else 8 if elements <= 8192 else 16
