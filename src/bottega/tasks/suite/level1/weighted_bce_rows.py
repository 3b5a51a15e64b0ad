import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(samples=16000, labels=60),
    "gpu": dict(samples=1048576, labels=80),
}


class Model(nn.Module):
    """Binary cross-entropy on logits with soft targets and one weight per label, summed per sample."""

    def __init__(self, labels: int):
        super().__init__()
        self.register_buffer("positive_weight", torch.rand(labels) * 4 + 0.5)

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, targets, pos_weight=self.positive_weight, reduction="none"
        )
        return losses.sum(dim=1)


def get_inputs():
    return [torch.randn(samples, labels) * 2, torch.rand(samples, labels)]


def get_init_inputs():
    return [labels]
