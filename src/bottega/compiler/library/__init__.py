"""Parts that an answer may call by their bare name without defining them; completion puts their text into its file.

A part is read as text and never imported: what it needs (Triton, a compiler) need not be there where answers are read.
"""
