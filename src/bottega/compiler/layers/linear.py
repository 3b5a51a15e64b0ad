"""`nn.Linear` with a kernel of ours: three TF32 products, the weight read as it lies, along the depth."""

from __future__ import annotations

from bottega.compiler.layers.pattern import Pattern

LINEAR = Pattern(
    kernel="""
@triton.jit
def linear_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across, piece = tl.cdiv(N, BN), tl.program_id(1)
    row = (tl.program_id(0) // across * BM + tl.arange(0, BM))[:, None]
    col = (tl.program_id(0) % across * BN + tl.arange(0, BN))[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(piece * BK, K, SPLIT * BK):
        k = start + tl.arange(0, BK)
        a = tl.load(x_ptr + row * K + k[None, :], mask=(row < M) & (k[None, :] < K), other=0.0)
        b = tl.load(weight_ptr + col * K + k[:, None], mask=(col < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    if bias_ptr is not None:
        acc += tl.where(piece == 0, tl.load(bias_ptr + col, mask=col < N, other=0.0), 0.0)
    tl.store(out_ptr + (piece * M + row) * N + col, acc, mask=(row < M) & (col < N))
""",
    classes={
        "Linear": """
class Linear(nn.Linear):
    def forward(self, x):
        N, K = self.weight.shape
        M = x.numel() // K
        # Small products are the library's.
        if x.dtype != torch.float32 or min(M, N, K) < 32:
            return super().forward(x)
        BM, BN, split, warps = tiles(M, N, K)
        out = torch.empty(split, *x.shape[:-1], N, device=x.device)
        grid = (triton.cdiv(M, BM) * triton.cdiv(N, BN), split)
        linear_kernel[grid](
            x.contiguous(), self.weight.contiguous(), self.bias, out, M, N, K, SPLIT=split, BM=BM, BN=BN, BK=64, num_warps=warps
        )
        return out[0] if split == 1 else out.sum(0)
""",
    },
)
