import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, input_size, widths, output_size):
        """
        :param input_size: number of input features
        :param widths: sizes of the hidden layers
        :param output_size: number of outputs
        """
        super(Model, self).__init__()
        layers = []
        prev = input_size
        for w in widths:
            layers.append(nn.Linear(prev, w))
            layers.append(nn.BatchNorm1d(w))
            layers.append(nn.GELU())
            prev = w
        layers.append(nn.Linear(prev, output_size))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


batch_size = 2048
input_size = 4096
widths = [3072, 1536, 768, 384]
output_size = 100


def get_inputs():
    return [torch.rand(batch_size, input_size)]


def get_init_inputs():
    return [input_size, widths, output_size]
