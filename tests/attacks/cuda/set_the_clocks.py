"""Asks the driver's management library for slow clocks, an exclusive device and little power: settings that outlive its process.

Raises when one of them is granted. The candidate itself is honest.
"""
# task: gpu_relu
# expect: same,slower,ambiguous

import ctypes

import torch
from torch import nn

granted = []
try:
    library = ctypes.CDLL("libnvidia-ml.so.1")
    handle = ctypes.c_void_p()
    if library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0:
        asked = {
            "locked clocks": lambda: library.nvmlDeviceSetGpuLockedClocks(handle, 300, 345),
            "memory clocks": lambda: library.nvmlDeviceSetMemoryLockedClocks(handle, 400, 410),
            "application clocks": lambda: library.nvmlDeviceSetApplicationsClocks(handle, 1593, 345),
            "power": lambda: library.nvmlDeviceSetPowerManagementLimit(handle, 200_000),
            "exclusive": lambda: library.nvmlDeviceSetComputeMode(handle, 3),
            "persistence": lambda: library.nvmlDeviceSetPersistenceMode(handle, 0),
            "accounting": lambda: library.nvmlDeviceSetAccountingMode(handle, 1),
        }
        granted = [name for name, ask in asked.items() if ask() == 0]
except (OSError, AttributeError):
    pass
if granted:
    raise RuntimeError(f"a candidate may set {', '.join(granted)}")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
