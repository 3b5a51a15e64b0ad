"""A loss: two inputs, a number out."""

import torch
import torch.nn.functional as F
from torch import nn


class FocalDice(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0, smooth=1.0):
        super().__init__()
        self.alpha, self.gamma, self.smooth = alpha, gamma, smooth

    def forward(self, logits, targets):
        probabilities = torch.sigmoid(logits)
        ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p_t = probabilities * targets + (1 - probabilities) * (1 - targets)
        focal = (ce * (1 - p_t) ** self.gamma * (self.alpha * targets + (1 - self.alpha) * (1 - targets))).mean()
        inter = (probabilities * targets).sum(dim=(1, 2))
        total = probabilities.sum(dim=(1, 2)) + targets.sum(dim=(1, 2))
        dice = 1 - ((2 * inter + self.smooth) / (total + self.smooth)).mean()
        return focal + dice
