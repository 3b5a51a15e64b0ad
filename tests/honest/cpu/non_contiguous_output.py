"""Returns its result as a transposed view: the values are right, only the strides differ from the reference's."""
# task: matmul
# expect: faster,same,slower,ambiguous

from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (b.t() @ a.t()).t()
