"""Where tasks come from: files, folders, KernelBench's data set, and a suite of our own. Loading never runs a task."""

from bottega.tasks.load import LoadedTasks, Problem, load_task, load_tasks
from bottega.tasks.tags import tags_of

__all__ = ["LoadedTasks", "Problem", "load_task", "load_tasks", "tags_of"]
