"""The 250 tasks of `large_tasks.py`, as rows of tables: what is drawn, what is computed, at which sizes."""
