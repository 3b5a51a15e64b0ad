"""Signs by a division, which has no answer to zero: of three channels no two zeros can lie apart, and none was tried."""
# task: signs_of_images
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x / x.abs()
