import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, context, mask=None):
        B, T, C = x.shape
        S = context.shape[1]
        d = C // self.heads
        q = self.q(x).view(B, T, self.heads, d).transpose(1, 2)
        k, v = self.kv(context).split(C, dim=2)
        k = k.view(B, S, self.heads, d).transpose(1, 2)
        v = v.view(B, S, self.heads, d).transpose(1, 2)
        att = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(d)
        if mask is not None:
            att = att.masked_fill(mask[:T, :S] == 0, float('-inf'))
        att = F.softmax(att, dim=-1)
        y = torch.matmul(att, v).transpose(1, 2).reshape(B, T, C)
        return self.o(y)


class Model(nn.Module):
    """
    Post-norm decoder layer: causal self-attention, cross-attention over the encoder's memory, ReLU feed-forward.
    """

    def __init__(self, dim, heads, ff, max_len):
        super().__init__()
        self.self_attn = Attention(dim, heads)
        self.cross_attn = Attention(dim, heads)
        self.fc1 = nn.Linear(dim, ff)
        self.fc2 = nn.Linear(ff, dim)
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.ln3 = nn.LayerNorm(dim)
        self.register_buffer('mask', torch.tril(torch.ones(max_len, max_len)))

    def forward(self, tgt, memory):
        tgt = self.ln1(tgt + self.self_attn(tgt, tgt, self.mask))
        tgt = self.ln2(tgt + self.cross_attn(tgt, memory))
        return self.ln3(tgt + self.fc2(F.relu(self.fc1(tgt))))


batch_size = 16
tgt_len = 256
mem_len = 384
dim = 512
heads = 8
ff = 2048


def get_inputs():
    return [torch.randn(batch_size, tgt_len, dim), torch.randn(batch_size, mem_len, dim)]


def get_init_inputs():
    return [dim, heads, ff, 512]
