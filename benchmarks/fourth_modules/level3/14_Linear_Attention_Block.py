import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Non-causal linear attention with the feature map elu(x) + 1, with output gate and residual.
    """
    def __init__(self, dim, heads, eps=1e-6):
        super(Model, self).__init__()
        self.heads = heads
        self.eps = eps
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.gate = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def split(self, t):
        b, n, c = t.shape
        return t.view(b, n, self.heads, c // self.heads)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = map(self.split, self.to_qkv(h).chunk(3, dim=-1))
        q = F.elu(q) + 1
        k = F.elu(k) + 1
        kv = torch.einsum('bnhd,bnhe->bhde', k, v)
        z = 1.0 / (torch.einsum('bnhd,bhd->bnh', q, k.sum(dim=1)) + self.eps)
        y = torch.einsum('bnhd,bhde,bnh->bnhe', q, kv, z)
        y = y.reshape(x.shape) * torch.sigmoid(self.gate(h))
        return x + self.out(y)

batch_size = 16
seq_len = 1024
dim = 512
heads = 8

def get_inputs():
    return [torch.randn(batch_size, seq_len, dim)]

def get_init_inputs():
    return [dim, heads]
