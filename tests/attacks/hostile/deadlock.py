"""Takes a lock twice, in a thread that is not a daemon, and waits for it."""
# task: relu
# expect: timeout
# options: timeout=4

import threading

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        lock = threading.Lock()
        lock.acquire()
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
        return x
