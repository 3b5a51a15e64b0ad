import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Bidirectional GRU over a short sequence with a linear layer at every step.
    """

    def __init__(self, input_size, hidden_size, num_tags):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size, num_layers=1, batch_first=True, bidirectional=True)
        self.tag = nn.Linear(2 * hidden_size, num_tags)

    def forward(self, x):
        states, _ = self.rnn(x)
        return self.tag(states)


input_size = 256
hidden_size = 512
num_tags = 48


def get_inputs():
    return [torch.randn(256, 32, input_size) * 2]


def get_init_inputs():
    return [input_size, hidden_size, num_tags]
