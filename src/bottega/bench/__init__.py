"""A task set, judged whole: who wrote what, what the judge found of it, and records that another machine can check."""
