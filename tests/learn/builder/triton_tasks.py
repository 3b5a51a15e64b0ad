"""Modules for what only a writer must tell apart: shapes of windows and strides, rows that are long, few or not neighbours."""

from __future__ import annotations

from small_tasks import task

PLANES = "torch.randn(2, 6, 5, 4)"
WIDE = [
    task("conv_strides", "return F.relu(self.c(x))", "torch.randn(2, 5, 7, 6)", "self.c = nn.Conv2d(5, 3, (3, 2), (2, 1), (1, 0), (1, 2))"),
    task("conv_deep", "return torch.tanh(self.c(x))", "torch.randn(1, 18, 5, 4)", "self.c = nn.Conv2d(18, 5, 3, padding=1)"),
    task("conv_groups", "return self.c(x) * 2.0", PLANES, "self.c = nn.Conv2d(6, 9, 3, padding=1, groups=3)"),
    task("conv_depthwise", "return F.relu(self.c(x)) + x", PLANES, "self.c = nn.Conv2d(6, 6, 3, padding=1, groups=6)"),
    task("conv_multiplied", "return self.c(x) + 1.0", PLANES, "self.c = nn.Conv2d(6, 12, 3, 2, 1, groups=6)"),
    task("conv_one_channel", "return self.c(x) + 1.0", "torch.randn(3, 1, 9)", "self.c = nn.Conv1d(1, 1, 3)"),
    task("conv_line", "return self.c(x) + 1.0", "torch.randn(2, 4, 9)", "self.c = nn.Conv1d(4, 3, 4, dilation=2)"),
    task("conv_volume", "return self.c(x) + 1.0", "torch.randn(1, 3, 3, 4, 5)", "self.c = nn.Conv3d(3, 2, (2, 3, 2), padding=(0, 1, 1))"),
    task("conv_point", "return F.relu(self.c(x))", PLANES, "self.c = nn.Conv2d(6, 5, 1)"),
    task("conv_point_strided", "return F.relu(self.c(x))", PLANES, "self.c = nn.Conv2d(6, 5, 1, stride=2)"),
    task("turned_even", "return self.c(x) + 1.0", PLANES, "self.c = nn.ConvTranspose2d(6, 3, 4, 2, 1)"),
    task("turned_uneven", "return self.c(x) + 1.0", PLANES, "self.c = nn.ConvTranspose2d(6, 1, 3, 2, 1, output_padding=1)"),
    task("turned_deep", "return self.c(x) + 1.0", "torch.randn(1, 17, 4)", "self.c = nn.ConvTranspose1d(17, 3, 5, 3)"),
    task("turned_groups", "return self.c(x) + 1.0", PLANES, "self.c = nn.ConvTranspose2d(6, 4, 3, 2, groups=2, dilation=2)"),
    task("pool_padded", "return F.max_pool2d(F.silu(x), 3, 2, 1) + 1.0", PLANES),
    task("pool_counted", "return F.avg_pool2d(x, 3, 2, 1, count_include_pad=False) * 2", PLANES),
    task("pool_dilated", "return F.max_pool2d(x, 2, 1, 1, 2)", PLANES),
    task("scan_back", "return torch.cumsum(x.flip(-1), -1) + torch.cumprod(x, 1)", "torch.randn(3, 4, 5)"),
    task("product_turned", "return torch.matmul(x.transpose(1, 2), y)", "torch.randn(2, 9, 5), torch.randn(2, 9, 7)", arguments="x, y"),
    task("product_split", "return torch.matmul(x, y)", "torch.randn(4, 64), torch.randn(64, 5)", arguments="x, y"),
    task("vector", "return torch.matmul(x, y)", "torch.randn(7, 40), torch.randn(40)", arguments="x, y"),
    task("attend", "return F.scaled_dot_product_attention(x, y, z, is_causal=True)",
         "torch.randn(1, 2, 9, 20), torch.randn(1, 2, 9, 20), torch.randn(1, 2, 9, 12)", arguments="x, y, z"),
    task("attend_masked", "return F.scaled_dot_product_attention(x, y, y, attn_mask=m)",
         "torch.randn(2, 2, 7, 16), torch.randn(2, 2, 9, 16), torch.randn(7, 9) > -1.0", arguments="x, y, m"),
    task("offset_rows", "return F.layer_norm(x + 40.0, (30,))", "torch.randn(3, 30) * 10"),
    task("nan_kept", "return torch.amax(x, 1), torch.relu(x).sum(1)",
         "torch.where(torch.arange(12.0).reshape(3, 4) == 5, torch.full((3, 4), float('nan')), torch.ones(3, 4))"),
    task("first_of_equals", "return torch.argmax(x, 1), torch.argmin(x, 0)", "torch.randint(0, 3, (4, 21)).float()"),
    task("whole", "return torch.mean((x - y) ** 2)", "torch.randn(9, 11), torch.randn(9, 11)", arguments="x, y"),
]  # fmt: skip
