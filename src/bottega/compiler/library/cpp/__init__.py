"""C++ functions that kernels call: texts, and where they are put into the source of an answer."""
