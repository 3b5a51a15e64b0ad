import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Batch normalization of a five dimensional tensor.
    """
    def __init__(self, num_features: int):
        """
        Args:
            num_features (int): Number of channels.
        """
        super(Model, self).__init__()
        self.bn = nn.BatchNorm3d(num_features=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(x)

batch_size = 16
features = 40
depth = 16
height = 64
width = 64

def get_inputs():
    x = torch.rand(batch_size, features, depth, height, width)
    return [x]

def get_init_inputs():
    return [features]
