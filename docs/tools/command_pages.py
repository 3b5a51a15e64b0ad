"""Writes docs/commands/: one page for each command, from the command line's own help.

The command line is the only place where an option is explained, so the pages cannot drift from it. What stands in a page below the line
`<!-- notes -->` is written by hand and kept. `make docs` writes the pages; a test holds them against the code.

    python docs/tools/command_pages.py
"""

from __future__ import annotations

import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import typer

from bottega.app.cli import app
from bottega.app.configured import COMMANDS
from bottega.app.settings_command import settings_of

FOLDER = Path(__file__).resolve().parent.parent / "commands"
NOTES = "<!-- notes -->"
WIDTH = 118
HEAD = "<!-- Written by docs/tools/command_pages.py from the command line's help. Edit only below the notes line. -->"


@cache
def commands() -> dict[str, Any]:
    """The commands of the first level by name, in the order of `bottega --help`."""
    root = typer.main.get_command(app)
    return {name: root.get_command(None, name) for name in root.list_commands(None)}  # type: ignore[attr-defined,arg-type]


@cache
def subcommands(command: Any) -> dict[str, Any]:
    if not hasattr(command, "list_commands"):
        return {}
    return {name: command.get_command(None, name) for name in command.list_commands(None)}


def flags(command: Any) -> set[str]:
    """Every spelling of every option that a command takes."""
    return {"--help"} | {text for parameter in command.params for text in (*parameter.opts, *parameter.secondary_opts)}


def valued(command: Any) -> set[str]:
    """Those that take a value, which is the next word."""
    return {text for each in command.params if is_option(each) and not each.is_flag for text in each.opts}


def find(words: list[str]) -> tuple[str, Any, list[str]] | None:
    """The command that these words call, its name, and the words after it; none where they call no command."""
    if not words or words[0] not in (known := commands()):
        return None
    command, rest = known[words[0]], words[1:]
    if rest and rest[0] in (below := subcommands(command)):
        return f"{words[0]} {rest[0]}", below[rest[0]], rest[1:]
    return words[0], command, rest


@cache
def keys(name: str) -> set[str]:
    """The settings that a command takes as `key=value`."""
    return {setting.key for setting in settings_of(name)} if name in COMMANDS else set()


def page(name: str, command: Any, notes: str) -> str:
    parts = [f"# bottega {name}", HEAD, explained(command)]
    below = subcommands(command)
    for inner, each in below.items():
        full = f"{name} {inner}"
        parts += [f"## {full}", explained(each), usage(full, each), options(each, 3), settings(full, each, 3)]
    if not below:
        parts += [usage(name, command), options(command, 2), settings(name, command, 2)]
    return "\n\n".join(part for part in parts if part) + f"\n\n{NOTES}\n{notes}"


def index(all_commands: dict[str, Any]) -> str:
    lines = []
    for name, command in all_commands.items():
        below = ", ".join(f"`{inner}`" for inner in subcommands(command))
        first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
        lines.append(wrapped(f"[`bottega {name}`]({name}.md): {first}" + (f" Commands: {below}." if below else ""), "- "))
    text = "Every option is explained by `bottega COMMAND --help`; these pages are made from that."
    return "\n\n".join(["# Commands", HEAD, text, "\n".join(lines)]) + "\n"


def explained(command: Any) -> str:
    """The command's docstring. It is Markdown already; lines are only made to fit."""
    paragraphs = []
    for paragraph in (command.help or "").replace("\b", "").strip().split("\n\n"):
        lines = paragraph.rstrip().split("\n")
        if lines[0].startswith("bottega "):  # an example that is all there is behind the first sentence
            lines = [f"    {line}" for line in lines]
        if all(line.startswith("    ") for line in lines):
            paragraphs.append("\n".join(broken(line) for line in lines))
        elif lines[0].lstrip().startswith(("- ", "* ")):
            paragraphs.append("\n".join(wrapped(line.strip()[2:], "- ") for line in lines))
        else:
            paragraphs.append(wrapped(" ".join(line.strip() for line in lines)))
    return "\n\n".join(paragraphs)


def usage(name: str, command: Any) -> str:
    arguments = [shown(parameter) for parameter in command.params if not is_option(parameter)]
    return f"    bottega {name} " + " ".join([*arguments, "[OPTIONS]"])


def options(command: Any, level: int) -> str:
    """Arguments and options as lists, under the headings that `--help` shows them by."""
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        if not parameter.hidden:
            heading = parameter.rich_help_panel or ("Options" if is_option(parameter) else "Arguments")
            panels.setdefault(heading, []).append(described(parameter))
    return "\n\n".join(f"{'#' * level} {heading}\n\n" + "\n".join(lines) for heading, lines in panels.items())


def settings(name: str, command: Any, level: int) -> str:
    """The settings that are no flags, as a list."""
    if name not in COMMANDS:
        return ""
    known = flags(command)
    lines = [
        wrapped(f"`{setting.key}`{standing(setting.default)}: {' '.join(setting.doc.split())}", "- ")
        for setting in settings_of(name)
        if f"--{setting.key.replace('_', '-')}" not in known
    ]
    text = "As `key=value`, or in a TOML file that `--config` names:"
    return "\n\n".join([f"{'#' * level} More settings", text, "\n".join(lines)])


def standing(default: Any) -> str:
    return "" if default in (None, "", [], ()) else f" (default `{default}`)"


def described(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts]) if is_option(parameter) else shown(parameter)
    if is_option(parameter) and parameter.metavar:
        names += f" {parameter.metavar}"
    aside = "required" if parameter.required else standard(parameter)
    return wrapped(f"`{names}`{f' ({aside})' if aside else ''}: {(parameter.help or '').strip()}", "- ")


def standard(parameter: Any) -> str:
    value = parameter.default
    if value is None or value == "" or value is False or callable(value):
        return ""
    return f"default `{value}`"


def is_option(parameter: Any) -> bool:
    return any(text.startswith("-") for text in parameter.opts)


def shown(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    if not parameter.metavar:
        name += "..." if parameter.nargs == -1 else ""
        name = name if parameter.required else f"[{name}]"
    return name


def wrapped(text: str, bullet: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_long_words=False, break_on_hyphens=False
    )


def broken(line: str) -> str:
    """A line of an example, carried on with a backslash where it is too long."""
    lines, current = [], line
    while len(current) > WIDTH and " " in current.strip():
        at = current.rfind(" --", 9, WIDTH - 2)
        at = at if at > 0 else current.rfind(" ", 8, WIDTH - 2)
        if at < 0:
            break
        lines.append(current[:at] + " \\")
        current = " " * 8 + current[at + 1 :]
    return "\n".join([*lines, current])


def pages() -> dict[Path, str]:
    """What every page must hold, by its file; notes are taken from the page as it is."""
    known = commands()
    made = {FOLDER / "index.md": index(known)}
    for name, command in known.items():
        path = FOLDER / f"{name}.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        made[path] = page(name, command, text.split(f"{NOTES}\n", 1)[1] if f"{NOTES}\n" in text else "")
    return made


def main() -> None:
    made = pages()
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path not in made:
            path.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
