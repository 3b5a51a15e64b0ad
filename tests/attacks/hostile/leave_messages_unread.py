"""Looks at what it is told without taking it (SO_PEEK_OFF), and has the controller say more: nothing fits any more in the end.

A controller that waits until it can send waits for ever, and the task is blamed.
"""
# task: relu
# expect: timeout
# options: timeout=6

import array
import json
import socket
import struct
import sys

import torch
from torch import nn

SO_PEEK_OFF = 42

frame = sys._getframe()
while "handlers" not in frame.f_locals:
    frame = frame.f_back
channel = frame.f_locals["self"].channel
channel.socket.setsockopt(socket.SOL_SOCKET, SO_PEEK_OFF, 0)


def look(count):
    data = b""
    while len(data) < count:
        piece, ancillary, _, _ = channel.socket.recvmsg(count - len(data), 1024, socket.MSG_PEEK)
        for _, _, payload in ancillary:
            channel.descriptors.extend(array.array("i", payload))
        data += piece
    return data


def message():
    (size,) = struct.unpack("<I", look(4))
    return json.loads(look(size))


def receive(deadline=None):
    told = message()
    for _ in range(250 if "go" in told else 0):
        channel.send({"compiling": told["go"]})
        channel.send({"compiled": told["go"]})
        message()
    return told


channel.receive = receive


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
