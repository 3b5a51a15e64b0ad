"""Small modules in the task format, one for each thing a plan must get right."""

from __future__ import annotations

from bottega.core.task import Task


def task(name: str, forward: str, inputs: str, init: str = "", arguments: str = "x") -> Task:
    """A task from the body of `forward`, the inputs, and the lines of the constructor."""
    lines = "\n".join(f"        {line}" for line in init.splitlines()) or "        pass"
    body = "\n".join(f"        {line}" for line in forward.splitlines())
    source = f"""import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{lines}

    def forward(self, {arguments}):
{body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
    return Task(source, name).validate()


SMALL = [
    task("chain", "return torch.sigmoid(x * 2.0 + 1.0) * x", "torch.randn(6, 10)"),
    task("gelus", "return F.gelu(x) + F.gelu(x, approximate='tanh') + F.mish(x) + F.softplus(x)", "torch.randn(5, 7)"),
    task("steps", "return F.hardswish(x) + F.elu(x, 0.7) + F.leaky_relu(x, 0.2) + x.clamp(-1, 1) ** 3", "torch.randn(5, 7)"),
    task("bias_planes", "return F.relu(x + self.b) * self.scale", "torch.randn(2, 3, 4, 5)",
         "self.b = nn.Parameter(torch.randn(3, 1, 1))\nself.scale = 1.5"),
    task("transposed_chain", "y = torch.tanh(x).transpose(1, 2)\nreturn y.reshape(y.shape[0], -1) + 1.0", "torch.randn(2, 3, 4)"),
    task("residual_two_uses", "y = F.silu(self.a(x))\nreturn y * torch.sigmoid(y) + x", "torch.randn(6, 8)", "self.a = nn.Linear(8, 8)"),
    task("mask", "return torch.where(x > 0, x, y).masked_fill(y > 1.0, -2.0)", "torch.randn(4, 5), torch.randn(4, 5)", arguments="x, y"),
    task("triangle", "return torch.tril(x) + torch.triu(x, 1) * 2", "torch.randn(3, 5, 5)"),
    task("halves", "return (x * torch.sigmoid(x)).to(torch.float16)", "torch.randn(6, 10).to(torch.bfloat16)"),
    task("integers", "return (x // 3 + x % 3).float() / 2", "torch.randint(0, 50, (6, 7))"),
    task("softmax_rows", "return torch.softmax(x / 2.0, dim=-1) * 3.0", "torch.randn(6, 9)"),
    task("softmax_middle", "return F.log_softmax(x, dim=1)", "torch.randn(2, 5, 4)"),
    task("layer_norm", "return F.relu(self.n(x + y))", "torch.randn(4, 6), torch.randn(4, 6)", "self.n = nn.LayerNorm(6)", "x, y"),
    task("rms_by_hand", "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.g", "torch.randn(4, 6)",
         "self.g = nn.Parameter(torch.ones(6))"),
    task("norm_channels", "m = x.mean(1, keepdim=True)\ns = (x - m).pow(2).mean(1, keepdim=True)\nreturn (x - m) / torch.sqrt(s + 1e-5)",
         "torch.randn(2, 6, 5)"),
    task("group_norm", "return F.silu(self.n(x))", "torch.randn(2, 6, 4, 3)", "self.n = nn.GroupNorm(3, 6)"),
    task("batch_norm", "return F.relu(self.n(x))", "torch.randn(3, 4, 5, 2)", "self.n = nn.BatchNorm2d(4)"),
    task("batch_norm_eval", "return F.relu(self.n(x))", "torch.randn(3, 4, 5, 2)", "self.n = nn.BatchNorm2d(4).eval()"),
    task("instance_norm", "return self.n(x) * 2", "torch.randn(3, 4, 5, 2)", "self.n = nn.InstanceNorm2d(4, affine=True)"),
    task("statistics", "return x.mean((1, 2)), x.var(-1), x.std(1, unbiased=False), x.norm(dim=2), torch.logsumexp(x, 1)",
         "torch.randn(3, 4, 5)"),
    task("extremes", "v, i = torch.max(x, dim=1)\nreturn v * 2, i, x.argmin(-1), x.amax((0, 1)), (x > 0).any(1)", "torch.randn(3, 4, 5)"),
    task("normalised", "return F.normalize(x, dim=1), F.cosine_similarity(x, y, dim=-1)", "torch.randn(3, 6), torch.randn(3, 6)",
         arguments="x, y"),
    task("total", "return (x * y).sum() / x.abs().max()", "torch.randn(3, 6), torch.randn(3, 6)", arguments="x, y"),
    task("losses", "return F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y, reduction='sum'), F.l1_loss(x, y, reduction='none')",
         "torch.randn(3, 6), torch.randn(3, 6)", arguments="x, y"),
    task("cross_entropy", "return F.cross_entropy(x, t) + F.cross_entropy(x, t, label_smoothing=0.1, reduction='sum')",
         "torch.randn(5, 7), torch.randint(0, 7, (5,))", arguments="x, t"),
    task("divergence", "return F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction='batchmean')",
         "torch.randn(3, 6), torch.randn(3, 6)", arguments="x, y"),
    task("smoothed", "p = F.log_softmax(x, -1)\nreturn p.gather(1, t.unsqueeze(1)).squeeze(1) * 0.9 + p.mean(-1)",
         "torch.randn(5, 11), torch.randint(0, 11, (5,))", arguments="x, t"),
    task("binary", "return F.binary_cross_entropy_with_logits(x, torch.sigmoid(y))", "torch.randn(3, 6), torch.randn(3, 6)", arguments="x, y"),
    task("linear_tail", "return F.gelu(self.fc(x)) * self.s + x", "torch.randn(2, 3, 8)", "self.fc = nn.Linear(8, 8)\nself.s = 0.3"),
    task("linear_then_norm", "return self.n(self.fc(x))", "torch.randn(5, 8)", "self.fc = nn.Linear(8, 6)\nself.n = nn.LayerNorm(6)"),
    task("products", "return torch.relu(x @ y) + torch.matmul(x, y.transpose(-1, -2).transpose(-1, -2))",
         "torch.randn(2, 4, 5), torch.randn(2, 5, 3)", arguments="x, y"),
    task("product_batch_shared", "return torch.tanh(x @ self.w + 1)", "torch.randn(2, 3, 4, 5)", "self.w = nn.Parameter(torch.randn(5, 6))"),
    task("einsum", "return torch.einsum('thd,hde->the', x, self.w) * 2", "torch.randn(4, 2, 5)", "self.w = nn.Parameter(torch.randn(2, 5, 3))"),
    task("vector", "return torch.mv(x, y) + 1", "torch.randn(4, 5), torch.randn(5)", arguments="x, y"),
    task("conv_tail", "return torch.tanh(self.c(x)) * 2 + self.b", "torch.randn(2, 3, 8, 7)",
         "self.c = nn.Conv2d(3, 4, 3, stride=2, padding=1)\nself.b = nn.Parameter(torch.randn(4, 1, 1))"),
    task("conv_kinds", "return self.b(F.relu(self.a(x)))", "torch.randn(2, 4, 9)",
         "self.a = nn.Conv1d(4, 8, 3, groups=2, dilation=2, padding=2)\nself.b = nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1)"),
    task("conv3d", "return F.leaky_relu(self.a(x), 0.1)", "torch.randn(1, 2, 5, 6, 4)", "self.a = nn.Conv3d(2, 3, (3, 1, 2), padding=(1, 0, 1))"),
    task("pools", "return F.max_pool2d(F.relu(x), 2), F.avg_pool2d(x, 3, 2, 1) * 2, F.adaptive_avg_pool2d(x, 1)", "torch.randn(2, 3, 8, 8)"),
    task("pool_then_scale", "return F.max_pool1d(x, 3, 1, 1, 1) * self.s - 1", "torch.randn(2, 3, 9)", "self.s = nn.Parameter(torch.tensor(2.0))"),
    task("scan", "return torch.cumsum(x * 2, dim=1) + 1", "torch.randn(2, 6, 3)"),
    task("embedding", "return self.e(t) * 2.0 + self.p", "torch.randint(0, 9, (3, 4))",
         "self.e = nn.Embedding(9, 5)\nself.p = nn.Parameter(torch.randn(4, 5))", "t"),
    task("gather", "return torch.gather(x, 1, t) + x.index_select(1, t[0])", "torch.randn(3, 6), torch.randint(0, 6, (3, 4))", arguments="x, t"),
    task("attention", "return F.scaled_dot_product_attention(x, y, y, is_causal=True) + 1.0", "torch.randn(2, 2, 6, 4), torch.randn(2, 2, 6, 4)",
         arguments="x, y"),
    task("attention_by_hand", "a = torch.softmax(x @ y.transpose(-2, -1) * 0.5, dim=-1)\nreturn a @ y", "torch.randn(2, 6, 4), torch.randn(2, 5, 4)",
         arguments="x, y"),
    task("heads", "b, t, c = x.shape\nq, k, v = self.a(x).split(c, dim=2)\nq = q.view(b, t, 2, c // 2).transpose(1, 2)\n"
         "k = k.view(b, t, 2, c // 2).transpose(1, 2)\nv = v.view(b, t, 2, c // 2).transpose(1, 2)\n"
         "y = F.scaled_dot_product_attention(q, k, v)\nreturn self.p(y.transpose(1, 2).contiguous().view(b, t, c))",
         "torch.randn(2, 5, 8)", "self.a = nn.Linear(8, 24)\nself.p = nn.Linear(8, 8)"),
    task("slices", "a, b = x.chunk(2, dim=1)\nreturn a * torch.sigmoid(b) + x[:, 1:4] - x[:, :1]", "torch.randn(4, 6)"),
    task("joined", "return torch.cat([F.relu(x), y * 2], dim=1) + 1", "torch.randn(2, 3), torch.randn(2, 4)", arguments="x, y"),
    task("network", "x = self.pool(F.relu(self.n(self.c(x))))\nreturn self.f(x.flatten(1))", "torch.randn(2, 3, 8, 8)",
         "self.c = nn.Conv2d(3, 4, 3, padding=1, bias=False)\nself.n = nn.BatchNorm2d(4)\nself.pool = nn.MaxPool2d(2)\nself.f = nn.Linear(64, 5)"),
    task("in_place", "y = self.r(self.a(x))\ny += x\nreturn y", "torch.randn(3, 8)", "self.a = nn.Linear(8, 8)\nself.r = nn.ReLU(inplace=True)"),
    task("given_transposed", "return torch.tanh(x) + x.sum(-1, keepdim=True), F.relu(x.flatten(1))", "torch.randn(3, 5, 4).transpose(1, 2)"),
    task("channels_last", "return F.relu(self.c(x)) * 2 + x.mean((2, 3), keepdim=True)",
         "torch.randn(2, 4, 6, 5).to(memory_format=torch.channels_last)",
         "self.c = nn.Conv2d(4, 4, 3, padding=1).to(memory_format=torch.channels_last)"),
    task("ignored", "return F.cross_entropy(x, t) + F.nll_loss(F.log_softmax(x, -1), s, ignore_index=3)",
         "torch.randn(6, 7), torch.tensor([3, -100, 0, 6, -100, 2]), torch.tensor([3, 1, 3, 6, 0, 2])", arguments="x, t, s"),
    task("recurrent", "y, h = self.g(x)\nreturn F.relu(y) + 1, h", "torch.randn(2, 5, 4)", "self.g = nn.GRU(4, 6, batch_first=True)"),
    task("recurrent_pair", "y, (h, c) = self.g(x)\nreturn F.relu(y) + 1, h * 2, c", "torch.randn(2, 5, 4)", "self.g = nn.LSTM(4, 6, batch_first=True)"),
    task("recurrent_given", "y, (h, c) = self.g[0](x, (s, s * 2))\nreturn F.relu(y) + 1", "torch.randn(5, 2, 4), torch.randn(1, 2, 6)",
         "self.g = nn.ModuleList([nn.LSTM(4, 6)])", "x, s"),
]  # fmt: skip
