"""The cold start: teachers' kernels and real mistakes, judged once and kept, and from them examples for all three roles."""
