import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Model(nn.Module):
    """
    Causal attention where all the query heads share one key head and one value head; rotary positions.
    """

    def __init__(self, n_embd: int, n_head: int, max_seq: int, base: float = 10000.0):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.hd = n_embd // n_head
        self.wq = nn.Linear(n_embd, n_embd, bias=False)
        self.wk = nn.Linear(n_embd, self.hd, bias=False)
        self.wv = nn.Linear(n_embd, self.hd, bias=False)
        self.wo = nn.Linear(n_embd, n_embd, bias=False)
        freqs = base ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        angles = torch.outer(torch.arange(max_seq).float(), freqs)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("causal", torch.ones(max_seq, max_seq, dtype=torch.bool).tril())

    def rope(self, x):
        T = x.size(-2)
        return x * self.cos[:T] + rotate_half(x) * self.sin[:T]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q = self.rope(self.wq(x).view(B, T, self.n_head, self.hd).transpose(1, 2))
        k = self.rope(self.wk(x)).unsqueeze(1)
        v = self.wv(x).unsqueeze(1)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(self.hd))
        att = att.masked_fill(~self.causal[:T, :T], float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.wo(y.transpose(1, 2).contiguous().view(B, T, C))


batch_size = 8
seq_len = 1024
n_embd = 768
n_head = 12


def get_inputs():
    return [torch.randn(batch_size, seq_len, n_embd)]


def get_init_inputs():
    return [n_embd, n_head, seq_len]
