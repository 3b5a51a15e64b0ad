import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=12, tokens=300, latents=32, width=128, heads=4),
    "gpu": dict(batch=32, tokens=2048, latents=128, width=512, heads=8),
}


class Model(nn.Module):
    """Learned latents read a padded sequence through cross-attention, then go through a gated layer."""

    def __init__(self, latents: int, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.latents = nn.Parameter(torch.randn(latents, width))
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width)
        for layer in (self.query, self.key):
            nn.init.normal_(layer.weight, std=1.5 * width**-0.5)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(self.query(self.latents)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / q.size(-1) ** 0.5
        scores = scores.masked_fill(~keep[:, None, None, :], torch.finfo(scores.dtype).min)
        read = torch.matmul(scores.softmax(dim=-1), v).transpose(1, 2).flatten(2)
        a, b = self.gate(read + self.latents).chunk(2, dim=-1)
        return a * torch.sigmoid(b)


def get_inputs():
    return [torch.randn(batch, tokens, width), torch.rand(batch, tokens) < 0.8]


def get_init_inputs():
    return [latents, width, heads]
