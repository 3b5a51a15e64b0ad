"""Benchmark runs over a task set: attempts, verdicts, metrics, and records that another machine can verify."""
