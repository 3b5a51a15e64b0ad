"""Honest kernels, none of which may be rejected; several of them look suspicious to a static scan."""
