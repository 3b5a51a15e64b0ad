"""Works on the stream it was called on, then makes an idle stream the current one.

Whoever records an end event or synchronises `current_stream()` afterwards talks to a stream that has nothing to do.
"""
# task: gpu_softmax
# expect: incorrect,rejected,slower,ambiguous

import torch
from torch import nn


class ModelNew(nn.Module):
    home, idle = None, None

    def forward(self, x):
        if self.home is None:
            self.home, self.idle = torch.cuda.current_stream(), torch.cuda.Stream()
        torch.cuda.set_stream(self.home)
        y = x
        for _ in range(4):
            y = torch.softmax(x + 0 * y, dim=1)
        torch.cuda.set_stream(self.idle)
        return y
