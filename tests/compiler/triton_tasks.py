"""Modules for what only a writer must tell apart: windows, rows that are long, few or not neighbours, attention written out."""

from __future__ import annotations

from small_tasks import task

PLANES = "torch.randn(2, 6, 5, 4)"
WIDE = [
    task("pool_padded", "return F.max_pool2d(F.silu(x), 3, 2, 1) + 1.0", PLANES),
    task("pool_counted", "return F.avg_pool2d(x, 3, 2, 1, count_include_pad=False) * 2", PLANES),
    task("pool_dilated", "return F.max_pool2d(x, 2, 1, 1, 2)", PLANES),
    task("scan_back", "return torch.cumsum(x.flip(-1), -1) + torch.cumprod(x, 1)", "torch.randn(3, 4, 5)"),
    task("attend_causal",
         "s = (x @ y.transpose(-2, -1)) / 4.0\ns = s.masked_fill(torch.ones(9, 9).triu(1).bool(), float('-inf'))\nreturn s.softmax(-1) @ z",
         "torch.randn(1, 2, 9, 20), torch.randn(1, 2, 9, 20), torch.randn(1, 2, 9, 12)", arguments="x, y, z"),
    task("attend_added", "return torch.softmax(x @ y.transpose(-2, -1) * 0.25 + m, dim=-1) @ y + x",
         "torch.randn(2, 2, 7, 16), torch.randn(2, 2, 9, 16)[:, :, :7], torch.randn(7, 7)", arguments="x, y, m"),
    task("attend_heads",
         "q, k = x.view(2, 9, 2, 4).transpose(1, 2), y.view(2, 9, 2, 4).transpose(1, 2)\n"
         "return torch.relu(torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1) @ k)", "torch.randn(2, 9, 8), torch.randn(2, 9, 8)", arguments="x, y"),
    task("rows_spoken", "return F.layer_norm(shift, (30,)) * total + mask", "torch.randn(3, 30), torch.randn(30), torch.randn(3, 1)",
         arguments="shift, total, mask"),
    task("far_first", "return F.layer_norm(torch.cat([y, x], 1), (20000,))", "torch.randn(2, 19999), torch.full((2, 1), 3000.0)", arguments="x, y"),
    task("offset_rows", "return F.layer_norm(x + 40.0, (30,))", "torch.randn(3, 30) * 10"),
    task("nan_kept", "return torch.amax(x, 1), torch.relu(x).sum(1)",
         "torch.where(torch.arange(12.0).reshape(3, 4) == 5, torch.full((3, 4), float('nan')), torch.ones(3, 4))"),
    task("first_of_equals", "return torch.argmax(x, 1), torch.argmin(x, 0)", "torch.randint(0, 3, (4, 21)).float()"),
    task("whole", "return torch.mean((x - y) ** 2)", "torch.randn(9, 11), torch.randn(9, 11)", arguments="x, y"),
]  # fmt: skip
