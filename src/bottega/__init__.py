"""Bottega: give it a PyTorch module, get back a faster kernel that was proved right and measured."""

__version__ = "0.1.0"
