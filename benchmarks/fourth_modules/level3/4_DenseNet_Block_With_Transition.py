import torch
import torch.nn as nn

class DenseUnit(nn.Module):
    def __init__(self, in_features: int, growth: int, bn_size: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(in_features),
            nn.ReLU(inplace=True),
            nn.Conv2d(in_features, bn_size * growth, kernel_size=1, bias=False),
            nn.BatchNorm2d(bn_size * growth),
            nn.ReLU(inplace=True),
            nn.Conv2d(bn_size * growth, growth, kernel_size=3, padding=1, bias=False),
        )

    def forward(self, x):
        return torch.cat([x, self.body(x)], dim=1)

class Model(nn.Module):
    """
    Bottlenecked dense block (1x1 then 3x3) closed by a halving transition.
    """
    def __init__(self, in_features: int, growth: int, num_layers: int, bn_size: int = 4):
        super().__init__()
        units = [DenseUnit(in_features + i * growth, growth, bn_size) for i in range(num_layers)]
        total = in_features + num_layers * growth
        self.dense = nn.Sequential(*units)
        self.transition = nn.Sequential(
            nn.BatchNorm2d(total), nn.ReLU(inplace=True),
            nn.Conv2d(total, total // 2, 1, bias=False), nn.AvgPool2d(2, 2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.transition(self.dense(x))

batch_size = 16
in_features = 48
growth = 24
num_layers = 6
size = 56

def get_inputs():
    return [torch.rand(batch_size, in_features, size, size)]

def get_init_inputs():
    return [in_features, growth, num_layers]
