"""Options that the commands which learn to choose have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from choice_folds import FOLDS

Folder = Annotated[Path, typer.Argument(help="Where rows, or scores, are kept.")]
Processes = Annotated[int, typer.Option(min=1)]
Fold = Annotated[int, typer.Option(min=0, max=FOLDS - 1, help="The part that is set aside.")]
Model = Annotated[str, typer.Option(help="That learns.")]
Limit = Annotated[int, typer.Option(min=0, help="So many tasks of a part; 0 for all.")]
Rates = Annotated[str, typer.Option(help="Learning rates to try, separated by commas.")]
Epochs = Annotated[int, typer.Option(min=1, help="Of each rate.")]
Every = Annotated[int, typer.Option(min=1, help="Epochs after which a model is scored.")]
