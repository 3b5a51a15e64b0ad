import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Embeds with a linear layer, compares unit vectors with unit prototypes, scales, softplus, max."""

    def __init__(self, in_features, embed, prototypes, margin):
        super().__init__()
        self.embed = nn.Linear(in_features, embed, bias=False)
        self.prototypes = nn.Parameter(torch.randn(prototypes, embed))
        self.logit_scale = nn.Parameter(torch.tensor(2.5))
        self.margin = margin

    def forward(self, x):
        z = F.normalize(self.embed(x), dim=-1)
        p = F.normalize(self.prototypes, dim=-1)
        logits = F.linear(z, p) * self.logit_scale.exp() - self.margin
        return F.softplus(logits).max(dim=1).values


batch = 8192
in_features = 1024
embed = 512
prototypes = 3000


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, embed, prototypes, 0.35]
