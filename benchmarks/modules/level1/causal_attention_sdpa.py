import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Causal scaled dot product attention.
    """

    def __init__(self):
        super().__init__()

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


batch_size = 6
num_heads = 12
seq_len = 1024
head_dim = 64


def get_inputs():
    q = torch.randn(batch_size, num_heads, seq_len, head_dim) * 2
    k = torch.randn(batch_size, num_heads, seq_len, head_dim)
    v = torch.randn(batch_size, num_heads, seq_len, head_dim)
    return [q, k, v]


def get_init_inputs():
    return []
