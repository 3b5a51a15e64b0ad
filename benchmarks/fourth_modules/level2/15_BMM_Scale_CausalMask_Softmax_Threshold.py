import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Scores of queries against keys, scaled, causally masked, softmaxed, small weights zeroed.
    """
    def __init__(self, length, scale, cutoff):
        super(Model, self).__init__()
        self.scale = scale
        self.cutoff = cutoff
        self.register_buffer("mask", torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1))

    def forward(self, q, k):
        s = torch.bmm(q, k.transpose(1, 2)) * self.scale
        s = s.masked_fill(self.mask, float("-inf"))
        p = torch.softmax(s, dim=-1)
        return torch.where(p > self.cutoff, p, torch.zeros_like(p))

batch_heads = 96
length = 768
dim = 128
scale = dim ** -0.5
cutoff = 1e-3

def get_inputs():
    return [torch.randn(batch_heads, length, dim), torch.randn(batch_heads, length, dim)]

def get_init_inputs():
    return [length, scale, cutoff]
