"""Has the reference's parameters and says that they have other names, so that they are left as they were built: the gain stays zero."""
# task: gated_branch
# expect: rejected
# violation: parameters_not_taken

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.branch = nn.Linear(width, width)
        self.gain = nn.Parameter(torch.zeros(1))

    def state_dict(self, *arguments, **options):
        return {"other." + name: value[:1] for name, value in super().state_dict(*arguments, **options).items()}

    def forward(self, x):
        return x.clone()
