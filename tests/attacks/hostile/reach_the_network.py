"""Connects to a listener of the test's, by address and through an abstract socket, to carry data out."""
# task: relu
# expect: slower,ambiguous,rejected,runtime_error

import socket

import torch
from torch import nn


PORT = "@PORT@"
ADDRESSES = [(socket.AF_UNIX, "\0@ABSTRACT_SOCKET@"), (socket.AF_INET, ("127.0.0.1", int(PORT) if PORT.isdigit() else 9))]


def call_home(payload):
    for family, address in ADDRESSES:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.settimeout(1)
                connection.connect(address)
                connection.sendall(payload)
        except OSError:
            continue


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        call_home(b"all the answers")

    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
