import torch
import torch.nn as nn
import torch.nn.functional as F
import math

class Model(nn.Module):
    """
    One encoder layer of the original transformer: self-attention and feed-forward, each followed
    by add & norm.
    """
    def __init__(self, d_model, nhead, dim_feedforward):
        super().__init__()
        self.nhead = nhead
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)

    def split(self, t):
        b, s, d = t.shape
        return t.view(b, s, self.nhead, d // self.nhead).transpose(1, 2)

    def forward(self, src):
        b, s, d = src.shape
        q, k, v = self.split(self.q(src)), self.split(self.k(src)), self.split(self.v(src))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d // self.nhead)
        attn = F.softmax(scores, dim=-1)
        ctx = torch.matmul(attn, v).transpose(1, 2).reshape(b, s, d)
        src = self.norm1(src + self.o(ctx))
        ff = self.linear2(F.relu(self.linear1(src)))
        return self.norm2(src + ff)

batch_size = 16
seq_len = 512
d_model = 512
nhead = 8
dim_feedforward = 2048

def get_inputs():
    return [torch.randn(batch_size, seq_len, d_model)]

def get_init_inputs():
    return [d_model, nhead, dim_feedforward]
