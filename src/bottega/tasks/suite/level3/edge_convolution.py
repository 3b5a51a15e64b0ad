"""Message passing on a point cloud with a fixed number of neighbours: gather, edge MLP, maximum over neighbours."""

import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(points=2400, neighbours=8, features=32, hidden=48, outputs=64),
    "gpu": dict(points=65536, neighbours=16, features=64, hidden=96, outputs=128),
}


class Model(nn.Module):
    def __init__(self, features, hidden, outputs):
        super().__init__()
        self.edge1 = nn.Linear(2 * features, hidden)
        self.edge2 = nn.Linear(hidden, outputs)
        self.slope = 0.1

    def forward(self, x, neighbours):
        near = x[neighbours]
        centre = x.unsqueeze(1).expand_as(near)
        edges = torch.cat([centre, near - centre], dim=-1)
        messages = self.edge2(nn.functional.leaky_relu(self.edge1(edges), self.slope))
        return messages.amax(dim=1)


def get_inputs():
    return [torch.randn(points, features), torch.randint(0, points, (points, neighbours))]


def get_init_inputs():
    return [features, hidden, outputs]
