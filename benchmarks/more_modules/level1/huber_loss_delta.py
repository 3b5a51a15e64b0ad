import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Huber loss between predictions and targets.
    """
    def __init__(self, delta):
        super(Model, self).__init__()
        self.delta = delta

    def forward(self, predictions, targets):
        return F.huber_loss(predictions, targets, delta=self.delta)

batch_size = 24576
dim = 1024

def get_inputs():
    scale = torch.rand(()) + 0.5
    return [torch.randn(batch_size, dim) * scale, torch.randn(batch_size, dim)]

def get_init_inputs():
    return [0.8]
