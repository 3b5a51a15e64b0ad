"""Returns a list that contains itself."""
# task: relu
# expect: incorrect,runtime_error,rejected

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        nest = [x]
        nest.append(nest)
        return nest
