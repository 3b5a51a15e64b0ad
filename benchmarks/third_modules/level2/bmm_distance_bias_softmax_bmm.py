import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Attention scores with a linear distance penalty per head, softmax, product with the values.
    """

    def __init__(self, num_heads, seq_len):
        super(Model, self).__init__()
        slopes = torch.pow(2.0, -8.0 * torch.arange(1, num_heads + 1) / num_heads)
        pos = torch.arange(seq_len)
        distance = (pos[None, :] - pos[:, None]).abs().float()
        self.register_buffer("bias", -slopes[:, None, None] * distance)

    def forward(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1)) / (q.size(-1) ** 0.5)
        scores = scores + self.bias
        probs = torch.softmax(scores, dim=-1)
        return torch.matmul(probs, v)


batch_size = 4
num_heads = 12
seq_len = 896
head_dim = 80


def get_inputs():
    return [torch.randn(batch_size, num_heads, seq_len, head_dim) for _ in range(3)]


def get_init_inputs():
    return [num_heads, seq_len]
