import torch
import torch.nn as nn

class Model(nn.Module):
    """
    A two-layer GRU over a sequence, with a linear layer on the last hidden state.
    """
    def __init__(self, input_size, hidden_size, num_layers, output_size):
        super(Model, self).__init__()
        self.gru = nn.GRU(input_size, hidden_size, num_layers, batch_first=True)
        self.fc = nn.Linear(hidden_size, output_size)

    def forward(self, x, h0):
        """
        :param x: (batch_size, seq_len, input_size)
        :param h0: (num_layers, batch_size, hidden_size)
        """
        out, _ = self.gru(x, h0)
        return self.fc(out[:, -1, :])

batch_size = 256
seq_len = 64
input_size = 256
hidden_size = 384
num_layers = 2
output_size = 64

def get_inputs():
    return [
        torch.randn(batch_size, seq_len, input_size),
        torch.randn(num_layers, batch_size, hidden_size),
    ]

def get_init_inputs():
    return [input_size, hidden_size, num_layers, output_size]
