import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Post-norm transformer encoder block on top of nn.MultiheadAttention.
    """

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_heads, dropout=0.0, batch_first=True)
        self.norm1 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x):
        a, _ = self.attn(x, x, x, need_weights=False)
        x = self.norm1(x + a)
        return self.norm2(x + self.ff(x))


d_model = 640
n_heads = 10
d_ff = 2048


def get_inputs():
    return [torch.randn(12, 400, d_model)]


def get_init_inputs():
    return [d_model, n_heads, d_ff]
