import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Strided convolution over the frames, bidirectional GRU, average over time, linear head."""

    def __init__(self, mel_bins, channels, hidden_size, num_classes):
        super().__init__()
        self.conv = nn.Conv1d(mel_bins, channels, kernel_size=5, stride=4, padding=2)
        self.gru = nn.GRU(channels, hidden_size, num_layers=1, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden_size, num_classes)

    def forward(self, x):
        x = F.relu(self.conv(x)).transpose(1, 2)
        out, _ = self.gru(x)
        return self.fc(out.mean(dim=1))


batch_size = 64
mel_bins = 80
frames = 400
channels = 256
hidden_size = 256
num_classes = 35


def get_inputs():
    return [torch.randn(batch_size, mel_bins, frames)]


def get_init_inputs():
    return [mel_bins, channels, hidden_size, num_classes]
