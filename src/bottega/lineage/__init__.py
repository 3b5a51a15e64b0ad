"""Expert kernels walked backward, one optimisation at a time, into skill cards whose steps were judged and done again."""
