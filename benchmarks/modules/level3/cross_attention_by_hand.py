import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Multi-head cross attention written out: queries from one sequence, keys and values from another.
    """

    def __init__(self, dim, context_dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)
        nn.init.normal_(self.to_q.weight, std=2.0 / math.sqrt(dim))
        nn.init.normal_(self.to_kv.weight, std=1.0 / math.sqrt(context_dim))

    def split_heads(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, x, context):
        q = self.split_heads(self.to_q(x))
        k, v = self.to_kv(context).chunk(2, dim=-1)
        k = self.split_heads(k)
        v = self.split_heads(v)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.head_dim)
        weights = scores.softmax(dim=-1)
        out = torch.matmul(weights, v)
        out = out.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[1], -1)
        return self.to_out(out)


DIM = 512
CONTEXT_DIM = 768
HEADS = 8


def get_inputs():
    return [torch.randn(8, 1024, DIM), torch.randn(8, 256, CONTEXT_DIM)]


def get_init_inputs():
    return [DIM, CONTEXT_DIM, HEADS]
