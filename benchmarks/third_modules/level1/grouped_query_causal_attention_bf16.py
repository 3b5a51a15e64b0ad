import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Causal attention where several query heads share one key/value head (bfloat16).
    """

    def __init__(self, num_heads: int, num_kv_heads: int):
        super(Model, self).__init__()
        self.repeat = num_heads // num_kv_heads

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k = k.repeat_interleave(self.repeat, dim=1)
        v = v.repeat_interleave(self.repeat, dim=1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


batch_size = 8
num_heads = 24
num_kv_heads = 6
seq_len = 2048
head_dim = 128


def get_inputs():
    q = torch.randn(batch_size, num_heads, seq_len, head_dim, dtype=torch.bfloat16)
    k = torch.randn(batch_size, num_kv_heads, seq_len, head_dim, dtype=torch.bfloat16)
    v = torch.randn(batch_size, num_kv_heads, seq_len, head_dim, dtype=torch.bfloat16)
    return [q, k, v]


def get_init_inputs():
    return [num_heads, num_kv_heads]
