"""A second bench, for kernels of our own builder only: they are proved right and measured like any other, and not guarded against."""
