import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Cross entropy with label smoothing over a large vocabulary.
    """

    def __init__(self, smoothing: float):
        super(Model, self).__init__()
        self.smoothing = smoothing

    def forward(self, logits, targets):
        return F.cross_entropy(logits, targets, label_smoothing=self.smoothing)


tokens = 12288
vocab = 8008
smoothing = 0.1


def get_inputs():
    return [torch.randn(tokens, vocab), torch.randint(0, vocab, (tokens,))]


def get_init_inputs():
    return [smoothing]
