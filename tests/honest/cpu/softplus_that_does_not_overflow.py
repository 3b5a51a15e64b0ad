"""Where the reference's exponential is infinite, the value that fp64 gives."""
# task: softplus_written_out
# expect: faster, same, slower, ambiguous
# options: timed=false

import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return F.softplus(x)
