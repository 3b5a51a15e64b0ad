"""What candidates import of Bottega: compile a C++ or CUDA string quickly, and call its functions with tensors.

Signatures are read from the source, so that a call which does not fit them raises instead of crashing the process.
"""

from .cplusplus import cpp
from .errors import ArgumentError, CompileError, LaunchError, UnavailableError
from .launch import cuda

__all__ = ["ArgumentError", "CompileError", "LaunchError", "UnavailableError", "cpp", "cuda"]
