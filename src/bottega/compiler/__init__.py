"""The rule-based compiler: a task's call graph in, kernels in C++, CUDA or Triton out, with a library of hand-written kernels behind them."""
