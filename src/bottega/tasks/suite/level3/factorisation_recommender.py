import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=4096, fields=12, dense=13, vocabulary=4000, width=16, hidden=128),
    "gpu": dict(batch=65536, fields=26, dense=13, vocabulary=100000, width=32, hidden=512),
}


class Model(nn.Module):
    """Click prediction: embedded fields, their pairwise interactions, a small tower, one logit per sample."""

    def __init__(self, fields, dense, vocabulary, width, hidden):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.first_order = nn.Embedding(vocabulary, 1)
        self.tower = nn.Sequential(nn.Linear(fields * width + dense, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        nn.init.normal_(self.table.weight, std=0.3)
        for layer in (self.tower[0], self.tower[2]):
            nn.init.kaiming_normal_(layer.weight)

    def forward(self, identifiers: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        embedded = self.table(identifiers)
        pairs = 0.5 * (embedded.sum(1).square() - embedded.square().sum(1)).sum(-1)
        linear = self.first_order(identifiers).sum(dim=(1, 2))
        deep = self.tower(torch.cat([embedded.flatten(1), numbers], dim=1)).squeeze(1)
        return linear + pairs + deep


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, fields)), torch.randn(batch, dense)]


def get_init_inputs():
    return [fields, dense, vocabulary, width, hidden]
