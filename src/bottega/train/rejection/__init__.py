"""Rejection sampling: which turns and traces are left out of an update, and why."""
