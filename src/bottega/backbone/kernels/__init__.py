"""Triton kernels of the decoder. Nothing outside of `bottega.backbone.paged` imports them: a machine without Triton needs none."""
