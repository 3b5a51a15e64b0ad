import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Bidirectional LSTM whose states are pooled by learned attention and classified.
    """
    def __init__(self, input_size, hidden_size, num_layers, num_classes):
        super(Model, self).__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, bidirectional=True)
        self.score = nn.Sequential(nn.Linear(2 * hidden_size, hidden_size), nn.Tanh(), nn.Linear(hidden_size, 1))
        self.fc = nn.Linear(2 * hidden_size, num_classes)

    def forward(self, x):
        states, _ = self.lstm(x)
        weights = torch.softmax(self.score(states), dim=1)
        pooled = (weights * states).sum(dim=1)
        return self.fc(pooled)

batch_size = 32
seq_len = 256
input_size = 128
hidden_size = 256
num_layers = 2
num_classes = 20

def get_inputs():
    return [torch.randn(batch_size, seq_len, input_size)]

def get_init_inputs():
    return [input_size, hidden_size, num_layers, num_classes]
