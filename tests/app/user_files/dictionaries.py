"""Takes a batch as a dictionary, and gives one back."""

import torch
from torch import nn


class Featurizer(nn.Module):
    def forward(self, batch):
        x = batch["values"] * batch["mask"]
        total = batch["mask"].sum(-1, keepdim=True).clamp(min=1)
        mean = x.sum(-1, keepdim=True) / total
        centred = (x - mean) * batch["mask"]
        return {"centred": centred, "spread": torch.sqrt((centred * centred).sum(-1) / total.squeeze(-1) + 1e-6)}


def example():
    return [{"values": torch.randn(256, 512), "mask": (torch.rand(256, 512) > 0.2).float()}]
