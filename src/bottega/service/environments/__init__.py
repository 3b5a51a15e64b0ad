"""The episode as an environment of other trainers: one session for each role, and a thin adapter for each trainer."""
