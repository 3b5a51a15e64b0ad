"""Whole models of transformers at the sizes of real checkpoints, bf16, random weights: `bottega optimize hf:MODEL`, held end to end against eager,
torch.compile and max-autotune, in the form (as it is, or compiled too) that is fastest against each. No model writes kernels: the compiler's drafts
and the search of their knobs do.

    PYTHONPATH=src python3 benchmarks/whole_models.py run FOLDER --device cuda
    PYTHONPATH=src python3 benchmarks/whole_models.py report FOLDER

Models are searched side by side (`--at-once`); whoever times holds the device's lock. A run that was stopped goes on with the same command.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from figure import Device, where

BASELINES = ("eager", "compile", "autotune")
Folder = Annotated[Path, typer.Argument(help="Where models and runs are kept.")]
app = typer.Typer(add_completion=False, help=__doc__)


@dataclass(frozen=True)
class WholeModel:
    name: str
    architecture: str
    configuration: str
    full: dict[str, Any]
    """Of the checkpoint."""
    small: dict[str, Any]
    inputs: str
    """In terms of B and T."""
    sizes: tuple[int, int]

    def write(self, folder: Path, small: bool) -> tuple[Path, str]:
        """Its configuration as a folder that `hf:` takes, and how it is called."""
        import transformers

        options = {**self.full, **self.small} if small else self.full
        config = getattr(transformers, self.configuration)(**options, architectures=[self.architecture])
        config.save_pretrained(folder / self.name)
        batch, tokens = (2, 6) if small else self.sizes
        words = str(getattr(config, "vocab_size", 0))
        return folder / self.name, self.inputs.replace("WORDS", words).replace("B", str(batch)).replace("T", str(tokens))


_FEW = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
_WORDS = "input_ids=torch.randint(0, WORDS, (B, T))"
MODELS = (
    WholeModel(
        "llama_1b", "LlamaForCausalLM", "LlamaConfig",
        {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "intermediate_size": 8192, "vocab_size": 128256},
        {**_FEW, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 50}, _WORDS, (4, 512),
    ),
    WholeModel(
        "qwen3_0.6b", "Qwen3ForCausalLM", "Qwen3Config",
        {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": True},
        {**_FEW, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 50}, _WORDS, (4, 512),
    ),
    WholeModel("bert_base", "BertModel", "BertConfig", {}, {**_FEW, "vocab_size": 50}, _WORDS, (32, 256)),
    WholeModel("vit_base", "ViTModel", "ViTConfig", {}, {**_FEW, "image_size": 32, "patch_size": 16},
               "pixel_values=torch.randn(B, 3, config.image_size, config.image_size)", (64, 0)),
)  # fmt: skip


@app.command()
def run(
    folder: Folder,
    device: Device = "cuda",
    only: Annotated[str, typer.Option(help="Names, separated by commas.")] = "",
    at_once: Annotated[int, typer.Option(min=1, help="Models that are searched side by side.")] = 3,
    small: Annotated[bool, typer.Option("--small", help="Tiny ones, to try the script.")] = False,
    baselines: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(BASELINES),
    minutes: Annotated[float, typer.Option(min=0.1, help="Of each model's search.")] = 5.0,
    compile_minutes: Annotated[float, typer.Option(min=0.1, help="After it, of its compiled forms.")] = 3.0,
    seconds: Annotated[float, typer.Option(min=1, help="What is under way then is stopped.")] = 540.0,
) -> None:
    """Optimize every model, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [model for model in MODELS if not only or model.name in only.split(",")]
    # Before any thread begins: transformers fills its names in as they are asked for, and two threads at once find some missing.
    written = [(model, *model.write(folder, small)) for model in chosen]

    def optimized(given: tuple[WholeModel, Path, str]) -> None:
        model, where_it_is, inputs = given
        out = folder / f"{model.name}-run"
        if (out / "whole_model.json").exists():
            return
        command = [
            sys.executable, "-m", "bottega", "optimize", f"hf:{where_it_is}", "--inputs", inputs, "--device", device, "--backbone", "none",
            "--out", str(out), f"baseline={baselines}", f"minutes={minutes:g}",
            f"compile_minutes={compile_minutes:g}", "dtype=bfloat16",
        ]  # fmt: skip
        with open(folder / f"{model.name}.log", "a", encoding="utf-8") as log:
            try:
                subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False, timeout=seconds)
            except subprocess.TimeoutExpired:
                log.write(f"\nstopped after {seconds:g} s\n")

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(optimized, written))
    report(folder, device)


@app.command()
def report(folder: Folder, device: Annotated[str, typer.Option(help="Where it ran; empty leaves it out.")] = "") -> None:
    """Print the table from what there is."""
    print("\n".join(table(folder)))
    if device:
        print(f"\n{where(device)}")


def table(folder: Path) -> Iterator[str]:
    yield f"| model | eager, ms | {' | '.join(f'over {name}' for name in BASELINES)} | parts that help |"
    yield f"|---|---:|{'---|' * len(BASELINES)}---|"
    for model in MODELS:
        path = folder / f"{model.name}-run" / "whole_model.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text(encoding="utf-8"))
        cells = []
        for name in BASELINES:
            form, over = max(found["against"].get(name, {}).items(), key=lambda each: each[1]["low"], default=("", None))
            cells.append(f"{over['point']:.3f} ({over['low']:.3f} to {over['high']:.3f}), {form}" if over else "")
        parts = {
            part["part"]["label"]: len(part["part"]["places"])
            for each in found["forms"]
            for part in each["parts"]
            if part["kept"]
        }
        kept = [f"{name} in {places} places" for name, places in parts.items()]
        time = found["forms"][0]["times_ms"].get("eager")
        yield f"| {model.name} | {'' if time is None else f'{time:.2f}'} | {' | '.join(cells)} | {', '.join(kept) or 'none'} |"


if __name__ == "__main__":
    app()
