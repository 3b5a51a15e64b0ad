import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "cpu": dict(batch=4, length=128, width=192, heads=6),
    "gpu": dict(batch=8, length=1024, width=768, heads=12),
}


class Model(nn.Module):
    """A pre-norm decoder block: causal self-attention and a GELU feed-forward layer."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        for norm in (self.norm1, self.norm2):
            nn.init.normal_(norm.weight, 1.0, 0.2)
            nn.init.normal_(norm.bias, 0.0, 0.2)
        nn.init.normal_(self.qkv.weight, std=1.5 * width**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return [width, heads]
