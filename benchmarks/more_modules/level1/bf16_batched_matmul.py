import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Batched matrix multiplication in bfloat16.
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A, B):
        return torch.bmm(A, B)

batch_size = 24
m = 1024
k = 1280
n = 768

def get_inputs():
    A = torch.randn(batch_size, m, k, dtype=torch.bfloat16)
    B = torch.randn(batch_size, k, n, dtype=torch.bfloat16)
    return [A, B]

def get_init_inputs():
    return []
