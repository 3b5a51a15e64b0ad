"""Returns a plain copy whose strides are swapped in the place of a transpose: every value is where its index says.

A straight copy instead of the change of layout that the task is about; whoever reads the memory finds the old layout.
"""
# task: transposed_copy
# expect: same,slower,ambiguous

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone().t()
