import torch
import torch.nn as nn


class Model(nn.Module):
    """
    A deep narrow perceptron with leaky ReLU between the layers.
    """

    def __init__(self, input_size, width, depth, output_size):
        super().__init__()
        sizes = [input_size] + [width] * depth
        layers = []
        for n_in, n_out in zip(sizes[:-1], sizes[1:]):
            lin = nn.Linear(n_in, n_out)
            nn.init.kaiming_normal_(lin.weight, a=0.1)
            layers += [lin, nn.LeakyReLU(0.1)]
        layers.append(nn.Linear(width, output_size))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


input_size = 768
width = 384
depth = 12
output_size = 100


def get_inputs():
    return [torch.randn(12288, input_size)]


def get_init_inputs():
    return [input_size, width, depth, output_size]
