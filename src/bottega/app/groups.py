"""Command groups that are imported when they are asked for: `bottega judge` starts without the skill library's dependencies."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

GROUPS = {
    "optimize": "bottega.app.optimize_command",
    "capture": "bottega.app.capture_command",
    "check": "bottega.app.check_command",
    "skills": "bottega.app.skills_command",
    "tasks": "bottega.app.tasks_command",
    "data": "bottega.app.data_command",
    "sft": "bottega.app.sft_command",
    "train": "bottega.app.train_command",
    "model": "bottega.app.model_command",
    "bench": "bottega.app.bench_command",
    "compare": "bottega.app.compare_command",
    "report": "bottega.app.report_command",
    "dashboard": "bottega.app.dashboard_command",
    "settings": "bottega.app.settings_command",
}


class LazyCommands(TyperGroup):
    """The commands that the application registers, and these groups beside them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in GROUPS:
            command = typer.main.get_command(import_module(GROUPS[cmd_name]).app)
            command.name = cmd_name
            return command
        return super().get_command(ctx, cmd_name)
