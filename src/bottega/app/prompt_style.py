"""In which style a backbone is asked: as the user says, else as its model was trained, else by whether it is behind a server."""

from __future__ import annotations

from typing import cast

from bottega.agents.prompts import Style
from bottega.backbone.loading import trained_style


def prompt_style(backbone: str, chosen: str | None = None) -> Style:
    return cast(Style, chosen or trained_style(backbone) or ("full" if backbone.startswith("server:") else "compact"))
