import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Embedding head: project, normalise to unit length, and scale by exp(temperature).
    """
    def __init__(self, in_dim, embed_dim):
        super().__init__()
        self.project = nn.Linear(in_dim, embed_dim, bias=False)
        self.log_temp = nn.Parameter(torch.tensor(2.6592))

    def forward(self, x):
        e = F.normalize(self.project(x), p=2, dim=-1)
        return e * self.log_temp.exp()

batch_size = 16384
in_dim = 1280
embed_dim = 768

def get_inputs():
    return [torch.randn(batch_size, in_dim)]

def get_init_inputs():
    return [in_dim, embed_dim]
