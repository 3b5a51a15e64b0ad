import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Pre-norm encoder layer built on nn.MultiheadAttention.
    """
    def __init__(self, d_model, nhead, dim_feedforward):
        super(Model, self).__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = nn.MultiheadAttention(d_model, nhead, dropout=0.0, batch_first=True)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(
            nn.Linear(d_model, dim_feedforward),
            nn.GELU(),
            nn.Linear(dim_feedforward, d_model),
        )

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.ff(self.norm2(x))

batch_size = 16
seq_len = 512
d_model = 512
nhead = 8
dim_feedforward = 2048

def get_inputs():
    return [torch.randn(batch_size, seq_len, d_model)]

def get_init_inputs():
    return [d_model, nhead, dim_feedforward]
