"""Normalisations that eager torch is slow at: batch norm while it trains, and group norm.

Statistics are taken about the mean in a second look at a plane, which the cache still holds. A batch norm's planes are put together
by every program that needs them, so that two launches do, and running statistics are kept as torch keeps them.
"""

from __future__ import annotations

from bottega.compiler.layers.pattern import Pattern

BATCH_NORM = Pattern(
    kernel="""
@triton.jit
def plane_kernel(x_ptr, mean_ptr, m2_ptr, size, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        total += tl.load(x_ptr + row * size + start + at, mask=start + at < size, other=0.0)
    mu = tl.sum(total) / size
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        v = tl.load(x_ptr + row * size + start + at, mask=start + at < size, other=mu) - mu
        squares += v * v
    tl.store(mean_ptr + row, mu)
    tl.store(m2_ptr + row, tl.sum(squares))


@triton.jit
def batch_norm_kernel(x_ptr, mean_ptr, m2_ptr, weight_ptr, bias_ptr, running_mean_ptr, running_var_ptr, out_ptr, N, C, size, eps, momentum,
                      BATCH: tl.constexpr, BLOCK: tl.constexpr):
    row, at, n = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, BATCH)
    c = row % C
    means = tl.load(mean_ptr + n * C + c, mask=n < N, other=0.0)
    mu = tl.sum(means) / N
    apart = tl.where(n < N, means - mu, 0.0)
    total = tl.sum(tl.load(m2_ptr + n * C + c, mask=n < N, other=0.0) + apart * apart * size)
    if row < C:
        tl.store(running_mean_ptr + c, tl.load(running_mean_ptr + c) * (1.0 - momentum) + mu * momentum)
        tl.store(running_var_ptr + c, tl.load(running_var_ptr + c) * (1.0 - momentum) + total / (N * size - 1) * momentum)
    scale = tl.load(weight_ptr + c) / tl.sqrt(total / (N * size) + eps)
    shift = tl.load(bias_ptr + c)
    for start in range(0, size, BLOCK):
        v = tl.load(x_ptr + row * size + start + at, mask=start + at < size, other=0.0)
        tl.store(out_ptr + row * size + start + at, (v - mu) * scale + shift, mask=start + at < size)
""",
    classes={
        "BatchNorm2d": """
class BatchNorm2d(nn.BatchNorm2d):
    def forward(self, x):
        plain = self.affine and self.track_running_stats and self.momentum is not None
        if not self.training or not plain or x.dtype != torch.float32 or x.dim() != 4 or x.shape[0] > 1024 or x[:, 0].numel() < 2:
            return super().forward(x)
        x = x.contiguous()
        N, C, H, W = x.shape
        block = min(4096, triton.next_power_of_2(H * W))
        mean, m2, out = x.new_empty(N * C), x.new_empty(N * C), torch.empty_like(x)
        plane_kernel[(N * C,)](x, mean, m2, H * W, BLOCK=block)
        batch_norm_kernel[(N * C,)](
            x, mean, m2, self.weight, self.bias, self.running_mean, self.running_var, out, N, C, H * W, self.eps, self.momentum,
            BATCH=triton.next_power_of_2(N), BLOCK=block)
        self.num_batches_tracked.add_(1)
        return out
""",
    },
)
GROUP_NORM = Pattern(
    kernel="""
@triton.jit
def group_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, size, plane, groups, channels, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        total += tl.load(x_ptr + row * size + start + at, mask=start + at < size, other=0.0)
    mu = tl.sum(total) / size
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        v = tl.load(x_ptr + row * size + start + at, mask=start + at < size, other=mu) - mu
        squares += v * v
    scale = 1.0 / tl.sqrt(tl.sum(squares) / size + eps)
    for start in range(0, size, BLOCK):
        c = row % groups * channels + (start + at) // plane
        inside = start + at < size
        v = (tl.load(x_ptr + row * size + start + at, mask=inside, other=0.0) - mu) * scale
        v = v * tl.load(weight_ptr + c, mask=inside, other=0.0) + tl.load(bias_ptr + c, mask=inside, other=0.0)
        tl.store(out_ptr + row * size + start + at, v, mask=inside)
""",
    classes={
        "GroupNorm": """
class GroupNorm(nn.GroupNorm):
    def forward(self, x):
        # A few groups of many elements would leave the device idle.
        if not self.affine or x.dtype != torch.float32 or x.dim() < 3 or x.shape[0] * self.num_groups < 64:
            return super().forward(x)
        x = x.contiguous()
        groups, channels = self.num_groups, self.num_channels // self.num_groups
        plane = x[0, 0].numel()
        out = torch.empty_like(x)
        block = min(4096, triton.next_power_of_2(channels * plane))
        group_norm_kernel[(x.shape[0] * groups,)](
            x, self.weight, self.bias, out, channels * plane, plane, groups, channels, self.eps, BLOCK=block, num_warps=8
        )
        return out
""",
    },
)
