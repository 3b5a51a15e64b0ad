"""Parts in Triton: each function has the signature and the result of torch's function of its name."""
