"""Takes other constructor arguments than the reference."""
# task: layer_norm
# expect: runtime_error,compile_error

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
