"""Small modules whose operands have other shapes than what is computed: broadcast, cut, reduced before or after."""

from __future__ import annotations

from small_tasks import task

CHANNEL = "self.gain = nn.Parameter(torch.randn(5, 1, 1))"
LOOKUPS = (
    task("scaled_channels", "return torch.tanh(x) * self.gain + 1", "torch.randn(3, 5, 4, 6)", CHANNEL),
    task("masked_softmax", "return F.softmax(x * 0.3 + mask, dim=-1)", "torch.randn(4, 6, 7), torch.randn(6, 7)", arguments="x, mask"),
    task("chunked_gate", "a, b = x.chunk(2, dim=1)\nreturn a * torch.sigmoid(b) * self.gain", "torch.randn(3, 10, 4, 6)", CHANNEL),
    task("split_last", "a, b = x.split(6, dim=-1)\nreturn F.silu(b) * a / 1.6", "torch.randn(2, 3, 12)"),
    task("narrowed", "return F.silu(x[..., :5]) * y", "torch.randn(2, 3, 8), torch.randn(2, 3, 5)", arguments="x, y"),
    task("after_a_maximum", "return F.softplus(x.amax(dim=2)) * self.gain", "torch.randn(3, 5, 7, 4, 6)", CHANNEL),
    task(
        "kept_dimension", "return (torch.logsumexp(x, dim=1, keepdim=True) * self.position).clamp(-3, 5)", "torch.randn(3, 5, 4, 6)",
        "self.position = nn.Parameter(torch.randn(1, 1, 4, 6))",
    ),
    task(
        "asked_before_it_is_spread", "return (x * 0.5).sum(dim=1, keepdim=True).masked_fill(mask < 0, 0.7)",
        "torch.randn(3, 5, 4, 6), torch.randn(4, 1)", arguments="x, mask",
    ),
    task("before_a_maximum", "return (x.clamp(-2, 1) * self.gain).max(dim=1)[0]", "torch.randn(3, 5, 4, 6)", CHANNEL),
    task(
        "row_scale", "return x * F.hardsigmoid(x.mean(dim=[2, 3], keepdim=True) * self.weight)", "torch.randn(3, 5, 4, 6)",
        "self.weight = nn.Parameter(torch.randn(1, 5, 1, 1))",
    ),
    task(
        "scaled_loss", "return F.mse_loss(x * self.weight, y)", "torch.randn(30, 8), torch.randn(30, 8)",
        "self.weight = nn.Parameter(torch.randn(8))", arguments="x, y",
    ),
    task(
        "rows_of_another_order", "return F.layer_norm(x.permute(0, 2, 3, 1), (5,), self.w, self.b)", "torch.randn(3, 5, 4, 6)",
        "self.w = nn.Parameter(torch.randn(5))\nself.b = nn.Parameter(torch.randn(5))",
    ),
    task("cropped", "return F.gelu(x[:, :, 1:-1, 2:] + self.gain)", "torch.randn(3, 5, 6, 8)", CHANNEL),
    task("first_dimension", "return torch.exp(-x) + self.shift", "torch.randn(3, 5, 6)", "self.shift = nn.Parameter(torch.randn(3, 1, 1))"),
    task("two_of_three", "return torch.relu(x) + self.table", "torch.randn(3, 5, 6)", "self.table = nn.Parameter(torch.randn(3, 1, 6))"),
)  # fmt: skip
