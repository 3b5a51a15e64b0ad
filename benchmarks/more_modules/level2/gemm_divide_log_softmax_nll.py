import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Classifier head with temperature: linear, division, log-softmax, mean negative log likelihood.
    """
    def __init__(self, in_features, num_classes, temperature):
        super(Model, self).__init__()
        self.head = nn.Linear(in_features, num_classes)
        self.temperature = temperature

    def forward(self, x, target):
        logits = self.head(x) / self.temperature
        logp = F.log_softmax(logits, dim=1)
        return F.nll_loss(logp, target)

batch_size = 2048
in_features = 1024
num_classes = 12000
temperature = 0.5

def get_inputs():
    x = torch.randn(batch_size, in_features) * (1.0 + 2.0 * torch.rand(()))
    target = torch.randint(0, num_classes, (batch_size,))
    return [x, target]

def get_init_inputs():
    return [in_features, num_classes, temperature]
