import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Embeds, L2-normalizes, compares with normalized prototypes, divides by a temperature, log-softmax.
    """
    def __init__(self, in_features, embed_dim, num_prototypes, temperature):
        super(Model, self).__init__()
        self.embed = nn.Linear(in_features, embed_dim, bias=False)
        self.prototypes = nn.Parameter(torch.randn(num_prototypes, embed_dim))
        self.temperature = temperature

    def forward(self, x):
        z = F.normalize(self.embed(x), dim=1)
        p = F.normalize(self.prototypes, dim=1)
        logits = F.linear(z, p) / self.temperature
        return F.log_softmax(logits, dim=1)

batch_size = 4096
in_features = 2048
embed_dim = 512
num_prototypes = 6000
temperature = 0.07

def get_inputs():
    return [torch.randn(batch_size, in_features)]

def get_init_inputs():
    return [in_features, embed_dim, num_prototypes, temperature]
