import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Logits from a linear layer, divided by a temperature; returns the entropy of their softmax per row.
    """

    def __init__(self, in_features: int, num_classes: int, temperature: float):
        super(Model, self).__init__()
        self.linear = nn.Linear(in_features, num_classes)
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.linear(x) / self.temperature
        log_p = torch.log_softmax(logits, dim=-1)
        return -(log_p.exp() * log_p).sum(dim=-1)


batch_size = 4096
in_features = 768
num_classes = 10000
temperature = 0.1


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, num_classes, temperature]
