"""Modules over more than 2^31 elements, one for each kind of kernel. They are traced without memory; no test runs them as a whole."""

from __future__ import annotations

from small_tasks import task

HALVES = "torch.randn({}, dtype=torch.float16)"

LARGE = [
    task("chain", "return torch.sigmoid(x * 2.0) * x", HALVES.format("2097156, 1024")),
    task("bias_rows", "return torch.relu(x + self.b)", HALVES.format("70000, 32768"),
         "self.b = nn.Parameter(torch.randn(32768, dtype=torch.float16))"),
    task("softmax", "return torch.softmax(x, dim=1)", HALVES.format("2097156, 1024")),
    task("column_sum", "return x.sum(dim=0)", HALVES.format("8200, 262144")),
    task("column_place", "return x.argmax(dim=0)", HALVES.format("8200, 262144")),
    task("all_sum", "return x.sum()", HALVES.format("8200, 262144")),
    task("column_scan", "return torch.cumsum(x, dim=0)", HALVES.format("8200, 262144")),
    task("layer_norm", "return F.layer_norm(x, (40000,))", HALVES.format("70000, 40000")),
    task("half", "return torch.relu(x.chunk(2, dim=0)[1])", HALVES.format("4194312, 1024")),
    task("large_result", "return torch.relu(x @ y)", "torch.randn(65536, 64), torch.randn(64, 65536)", arguments="x, y"),
    task("large_right", "return x @ y", "torch.randn(512, 65536), torch.randn(65536, 65536)", arguments="x, y"),
    task("conv", "return F.relu(self.conv(x))", "torch.randn(16, 32, 2100, 2100)", "self.conv = nn.Conv2d(32, 32, 3, padding=1)"),
    task("conv_depthwise", "return self.conv(x)", "torch.randn(16, 32, 2100, 2100)", "self.conv = nn.Conv2d(32, 32, 3, groups=32)"),
    task("pool", "return F.max_pool2d(x, 2)", "torch.randn(16, 32, 2100, 2100)"),
    task("attend", "return F.scaled_dot_product_attention(q, k, v)",
         ", ".join(["torch.randn(2048, 16, 1100, 64)"] * 3), arguments="q, k, v"),
    task("lookup", "return self.table(x)", "torch.randint(0, 40000000, (64,), dtype=torch.int32)", "self.table = nn.Embedding(40000000, 64)"),
]  # fmt: skip
