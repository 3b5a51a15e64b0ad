import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=384, features=256, hidden=512, depth=3, classes=40),
    "gpu": dict(batch=8192, features=768, hidden=1536, depth=3, classes=1000),
}


class Block(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.fc1 = nn.Linear(features, hidden)
        self.fc2 = nn.Linear(hidden, features)
        nn.init.normal_(self.norm.weight, 1.0, 0.2)
        nn.init.normal_(self.norm.bias, 0.0, 0.2)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))


class Model(nn.Module):
    """A tabular network: residual blocks on normalised features and a linear head."""

    def __init__(self, features, hidden, depth, classes):
        super().__init__()
        self.blocks = nn.ModuleList(Block(features, hidden) for _ in range(depth))
        self.head = nn.Linear(features, classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, hidden, depth, classes]
