"""Processes that run foreign code: isolation, limits, supervision, the fork server. Nothing here knows kernels or timing."""
