"""The judge's mode for kernels of our own compiler: no sandbox between candidates, many candidates of a task in one process.

The judge takes every candidate for hostile, and a process and a device context for each are most of what its verdicts cost. Code of our own
may be wrong, crash or hang, and does not cheat. Same trials, same statistics, same words; who may be judged this way is not decided here.
"""

TRUSTED_VERSION = "2"
"""Raised whenever the same candidate could get another verdict here than before."""
NOTE = "trusted bench: not isolated"
"""In every verdict of this mode."""
