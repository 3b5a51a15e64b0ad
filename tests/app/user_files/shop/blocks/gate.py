import torch

from ..constants import SLOPE


def gated(x):
    return x * torch.sigmoid(SLOPE * x)
