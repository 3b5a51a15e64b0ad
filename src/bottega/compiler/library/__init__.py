"""The kernel library: hand-written functions that an answer may call by name without defining them; `link` inlines their text.

A library function is read as text and never imported: what it needs (Triton, a compiler) need not be installed where answers are read.
"""
