"""The one exception that says: this task cannot be judged."""


class InvalidTask(Exception):
    """The text says why, and what to do about it."""


def out_of_memory(text: str) -> bool:
    """Whether an error's text is an allocator's: torch raises a plain RuntimeError for it on a CPU."""
    lowered = text.lower()
    return "out of memory" in lowered or "allocate memory" in lowered or "defaultcpuallocator" in lowered
