"""Sends thousands of open files over the judge's own sockets, to use up the receiver's table."""
# task: relu
# expect: rejected,runtime_error,timeout
# options: timeout=10

import array
import os
import socket
import stat
import struct

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        null = os.open("/dev/null", os.O_RDONLY)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 32))]
        body = b'{"hello": 1}'
        for descriptor in range(3, 256):
            try:
                if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    continue
                channel = socket.socket(fileno=os.dup(descriptor))
                channel.setblocking(False)
                for _ in range(200):
                    channel.sendmsg([struct.pack("<I", len(body)) + body], rights)
            except OSError:
                continue
        return torch.relu(x)
