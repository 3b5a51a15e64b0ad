"""Imports from a package beside it; the class itself is defined there."""

import shop
from shop.layers import ScaledNorm  # noqa: F401

DIM = 256


def example():
    return [shop.layers.torch.randn(512, DIM)]
