"""Finds the reference's class in the process and inherits from it, forward included.

In a harness that runs both in one namespace that is a complete, correct candidate in two lines.
"""
# task: layer_norm
# expect: compile_error,runtime_error,rejected
# options: require_kernel=0.3

from torch import nn

found = [known for known in nn.Module.__subclasses__() if known.__name__ == "Model"]
Reference = found[-1] if found else Model  # noqa: F821


class ModelNew(Reference):
    pass
