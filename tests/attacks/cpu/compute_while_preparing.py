"""Hooks the step in which its own process learns of the next inputs, and computes there, ahead of the call.

Whatever a harness does between laying out the inputs and starting the clock is time for free.
"""
# task: relu
# expect: slower,ambiguous,rejected,incorrect,runtime_error

import gc

import torch
from torch import nn


class ModelNew(nn.Module):
    hooked, early = False, None

    def hook(self):
        for worker in gc.get_objects():
            if type(worker).__name__ == "Worker" and hasattr(worker, "prepare"):
                prepare = type(worker).prepare

                def prepare_and_compute(worker, message, prepare=prepare):
                    reply = prepare(worker, message)
                    x = worker.arguments[0]
                    self.early = (x.flatten()[::257].clone(), torch.relu(x))
                    return reply

                type(worker).prepare = prepare_and_compute
                handlers = [o for o in gc.get_objects() if isinstance(o, dict) and "prepare" in o and "arenas" in o]
                for table in handlers:
                    table["prepare"] = prepare_and_compute.__get__(worker)
        self.hooked = True

    def forward(self, x):
        if not self.hooked:
            self.hook()
        early, self.early = self.early, None
        if early is not None and torch.equal(early[0], x.flatten()[::257]):
            return early[1]
        for _ in range(8):  # so that the truth is plain: far slower, unless the result was ready
            y = torch.relu(x)
        return y
