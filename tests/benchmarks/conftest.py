"""The benchmarks are scripts beside each other: a test imports them as they import one another."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
