"""Arithmetic of a call graph that was not fused: what torch does under these names, for tensors and numbers in either place."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch


def add(input, other, alpha=1):
    """torch.add."""
    if not torch.is_tensor(input) and not torch.is_tensor(other):
        return torch.add(torch.tensor(input), other, alpha=alpha)
    return input + other * alpha if alpha != 1 else input + other


def sub(input, other, alpha=1):
    """torch.sub."""
    if not torch.is_tensor(input) and not torch.is_tensor(other):
        return torch.sub(torch.tensor(input), other, alpha=alpha)
    return input - other * alpha if alpha != 1 else input - other


def mul(input, other):
    """torch.mul."""
    if not torch.is_tensor(input) and not torch.is_tensor(other):
        return torch.mul(torch.tensor(input), other)
    return input * other


def div(input, other, rounding_mode=None):
    """torch.div."""
    if not torch.is_tensor(input) and not torch.is_tensor(other):
        return torch.div(torch.tensor(input), other, rounding_mode=rounding_mode)
    return input / other if rounding_mode is None else torch.div(input, other, rounding_mode=rounding_mode)
