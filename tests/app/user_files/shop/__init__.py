from .layers import ScaledNorm

__all__ = ["ScaledNorm"]
