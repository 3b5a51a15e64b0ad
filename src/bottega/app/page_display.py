"""A report's page on a terminal."""

from __future__ import annotations

from rich.table import Table

from bottega.app.skills_tables import console_for
from bottega.app.terminal import Terminal
from bottega.episodes.delivery.page import ReportPage


def print_page(page: ReportPage) -> None:
    """A page on a terminal: what stands in its Markdown, in the terminal's own tables."""
    plain = Terminal()
    plain.print(page.title, style="bold")
    for warning in page.warnings:
        plain.print(f"! {warning}", style="bold yellow", soft_wrap=not plain.is_terminal)
    for name, told in page.facts:
        plain.print(f"{name}: {told}", soft_wrap=not plain.is_terminal)
    for rows in page.tables:
        table = Table(title=rows.title, title_justify="left")
        for place, column in enumerate(rows.columns):
            table.add_column(column, overflow="fold", no_wrap=place == 0 and len(rows.columns) < 7)
        for row in rows.rows:
            table.add_row(*row)
        if rows.caption:
            table.caption, table.caption_justify = rows.caption, "left"
        console_for(table).print(table)
    for note in page.notes:
        plain.print(note, soft_wrap=not plain.is_terminal)
