import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(bags=12000, bag_size=40, vocabulary=5000, width=64),
    "gpu": dict(bags=65536, bag_size=40, vocabulary=200000, width=128),
}


class Model(nn.Module):
    """Sum of the table rows that every bag of identifiers names."""

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, width))

    def forward(self, identifiers: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding_bag(identifiers, self.table, mode="sum")


def get_inputs():
    return [torch.randint(0, vocabulary, (bags, bag_size))]


def get_init_inputs():
    return [vocabulary, width]
