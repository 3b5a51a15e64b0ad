"""Triton kernels of the decoder. Nothing outside of `bottega.backbone.paged_runner` imports them: a machine without Triton needs none."""
