"""The module around a kernel. The texts of these files are copied into every delivered file, in the order of `optimized_file.PARTS`."""
