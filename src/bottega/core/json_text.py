"""JSON as every parser reads it."""

from __future__ import annotations

import math
from typing import Any


def strict(value: Any) -> Any:
    """The value without NaN and infinities, which are none in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value
