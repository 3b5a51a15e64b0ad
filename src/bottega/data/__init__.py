"""Data to learn from: tasks and teachers in, judged and filtered examples out."""
