"""Processes that run foreign code: isolation, limits, supervision, the fork server. Knows nothing of GPU kernels, timing or the judge."""
