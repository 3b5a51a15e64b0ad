"""Bottega makes PyTorch modules faster: it writes kernels, checks them against an fp64 oracle, and measures them."""

__version__ = "0.1.0"
