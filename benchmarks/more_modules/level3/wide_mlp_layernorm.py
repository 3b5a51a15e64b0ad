import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Two very wide layers with a LayerNorm between them.
    """
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.fc1 = nn.Linear(d_in, d_hidden)
        self.ln = nn.LayerNorm(d_hidden)
        self.fc2 = nn.Linear(d_hidden, d_hidden // 4)
        self.fc3 = nn.Linear(d_hidden // 4, d_out)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = self.ln(x)
        x = F.relu(self.fc2(x))
        return self.fc3(x)

batch_size = 1024
d_in = 2048
d_hidden = 8192
d_out = 1000

def get_inputs():
    return [torch.randn(batch_size, d_in)]

def get_init_inputs():
    return [d_in, d_hidden, d_out]
