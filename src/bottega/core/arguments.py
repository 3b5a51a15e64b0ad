"""What `get_inputs()` and `get_init_inputs()` return, read as the arguments of a call.

A list is positional, as in KernelBench; a dictionary is by name; a list and a dictionary in one pair are both. Where the signature does
not take it so and knows none of the names, the value stands for itself: a model over one dictionary may get that dictionary.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


class Arguments(NamedTuple):
    positional: tuple[Any, ...]
    keywords: dict[str, Any]
    """Only what has no place among the positional ones."""


def read_arguments(returned: Any, function: Callable[..., Any]) -> Arguments:
    """The first reading that `function` takes, with names turned into places as far as the signature has any."""
    readings = list(_readings(returned))
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return readings[0]
    for reading in readings:
        try:
            bound = signature.bind(*reading.positional, **reading.keywords)
        except TypeError:
            if reading.keywords.keys() & signature.parameters.keys():
                break
            continue
        return Arguments(bound.args, bound.kwargs)
    return readings[0]  # the call will say what it lacks


def _readings(returned: Any) -> Iterator[Arguments]:
    if _by_name(returned):
        yield Arguments((), dict(returned))
    if not isinstance(returned, list | tuple):
        yield Arguments((returned,), {})
        return
    if len(returned) == 2 and isinstance(returned[0], list | tuple) and _by_name(returned[1]):
        yield Arguments(tuple(returned[0]), dict(returned[1]))
    yield Arguments(tuple(returned), {})


def _by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
