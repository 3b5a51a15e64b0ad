"""Whole models of transformers at the sizes of real checkpoints, bf16, random weights: `bottega optimize hf:MODEL`, held end to end against eager,
torch.compile and max-autotune, in the form (as it is, or compiled too) that is fastest against each. No model writes kernels: the compiler's drafts
and the search of their knobs do.

    PYTHONPATH=src python3 benchmarks/whole_models.py run FOLDER --device cuda
    PYTHONPATH=src python3 benchmarks/whole_models.py report FOLDER

Models are searched one after the other, or some beside each other (`--at-once`). A model takes its `--minutes`, a minute more at most for the
last verdicts on its parts, half a minute or so as it is, then `--compile-minutes`. What was measured is kept after each step, and the same command
goes on: parts that were found and forms that were measured to the end stay.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
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

    @property
    def small_sizes(self) -> tuple[int, int]:
        return 2, self.small.get("image_size", 6)

    def write(self, folder: Path, small: bool) -> tuple[Path, str]:
        """Its configuration as a folder that `hf:` takes, and how it is called."""
        import transformers

        options = {**self.full, **self.small} if small else self.full
        config = getattr(transformers, self.configuration)(**options, architectures=[self.architecture])
        config.save_pretrained(folder / self.name)
        batch, tokens = self.small_sizes if small else self.sizes
        words = str(getattr(config, "vocab_size", 0))
        return folder / self.name, self.inputs.replace("WORDS", words).replace("B", str(batch)).replace("T", str(tokens))


_FEW = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
_GROUPED = {**_FEW, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 50}
_EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_WORDS = "input_ids=torch.randint(0, WORDS, (B, T))"
_PICTURE = "pixel_values=torch.randn(B, 3, T, T)"
MODELS = (
    WholeModel(
        "gpt2_medium", "GPT2LMHeadModel", "GPT2Config", {"n_embd": 1024, "n_layer": 24, "n_head": 16},
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}, _WORDS, (8, 512),
    ),
    WholeModel(
        "llama_1b", "LlamaForCausalLM", "LlamaConfig",
        {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "intermediate_size": 8192, "vocab_size": 128256},
        _GROUPED, _WORDS, (4, 512),
    ),
    WholeModel(
        "qwen3_0.6b", "Qwen3ForCausalLM", "Qwen3Config",
        {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": True},
        _GROUPED, _WORDS, (4, 512),
    ),
    WholeModel(
        "olmoe_1b_7b_4_layers", "OlmoeModel", "OlmoeConfig", {"num_hidden_layers": 4, "intermediate_size": 1024},
        {**_FEW, **_EXPERTS, "num_key_value_heads": 4, "vocab_size": 50}, _WORDS, (4, 512),
    ),
    WholeModel(
        "qwen3_30b_a3b_4_layers", "Qwen3MoeModel", "Qwen3MoeConfig",
        {"hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
         "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True},
        {**_GROUPED, **_EXPERTS}, _WORDS, (4, 512),
    ),
    WholeModel(
        "mixtral_half_width_4_layers", "MixtralModel", "MixtralConfig",
        {"hidden_size": 2048, "intermediate_size": 7168, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4},
        {**_GROUPED, **_EXPERTS}, _WORDS, (4, 512),
    ),
    WholeModel("bert_base", "BertModel", "BertConfig", {}, {**_FEW, "vocab_size": 50}, _WORDS, (32, 256)),
    WholeModel("vit_base", "ViTModel", "ViTConfig", {}, {**_FEW, "image_size": 32, "patch_size": 16}, _PICTURE, (64, 224)),
    WholeModel(
        "convnextv2_tiny", "ConvNextV2Model", "ConvNextV2Config", {},
        {"hidden_sizes": [16, 32, 48, 64], "depths": [2, 2, 2, 2], "image_size": 64}, _PICTURE, (64, 224),
    ),
    WholeModel(
        "swin_tiny", "SwinModel", "SwinConfig", {},
        {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "image_size": 56}, _PICTURE, (64, 224),
    ),
    WholeModel(
        "efficientnet_b0", "EfficientNetModel", "EfficientNetConfig",
        {"image_size": 224, "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280}, {"image_size": 64}, _PICTURE, (64, 224),
    ),
    WholeModel(
        "whisper_small_encoder", "WhisperForAudioClassification", "WhisperConfig",
        {"d_model": 768, "encoder_layers": 12, "encoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_layers": 1},
        {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 96, "max_source_positions": 20},
        "input_features=torch.randn(B, config.num_mel_bins, 2 * config.max_source_positions)", (8, 0),
    ),
    WholeModel(
        "mamba_130m_4_layers", "MambaModel", "MambaConfig", {"num_hidden_layers": 4},
        {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "vocab_size": 50}, _WORDS, (32, 64),
    ),
)  # fmt: skip
"""Where a name says how many layers, they are that many of the checkpoint's; sizes of all else are its own."""


@app.command()
def run(
    folder: Folder,
    device: Device = "cuda",
    only: Annotated[str, typer.Option(help="Names, separated by commas, those first that are to begin first.")] = "",
    at_once: Annotated[int, typer.Option(min=1, help="Models that are searched side by side.")] = 1,
    small: Annotated[bool, typer.Option("--small", help="Tiny ones, to try the script.")] = False,
    baselines: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(BASELINES),
    minutes: Annotated[float, typer.Option(min=0.1, help="Of each model's search.")] = 5.0,
    modules: Annotated[int, typer.Option(min=1, help="Of each model, to work on.")] = 3,
    compile_minutes: Annotated[float, typer.Option(min=0.1, help="After it, of its compiled forms.")] = 3.0,
    seconds: Annotated[float, typer.Option(min=1, help="What is under way then is stopped.")] = 540.0,
) -> None:
    """Optimize every model, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = named(only)
    # Before any thread begins: transformers fills its names in as they are asked for, and two threads at once find some missing.
    written = [(model, *model.write(folder, small)) for model in chosen]

    wanted = [name for name in BASELINES if name in baselines.split(",")]

    def optimized(given: tuple[WholeModel, Path, str]) -> None:
        model, where_it_is, inputs = given
        out = folder / f"{model.name}-run"
        if not missing(out, wanted):
            return
        command = [
            sys.executable, "-m", "bottega", "optimize", f"hf:{where_it_is}", "--inputs", inputs, "--device", device, "--backbone", "none",
            "--out", str(out), f"baseline={baselines}", f"minutes={minutes:g}",
            f"compile_minutes={compile_minutes:g}", f"modules={modules}", "dtype=bfloat16",
            *(["--resume"] if (out / "tasks").exists() else []),
        ]  # fmt: skip
        with open(folder / f"{model.name}.log", "a", encoding="utf-8") as log:
            try:
                subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False, timeout=seconds)
            except subprocess.TimeoutExpired:
                log.write(f"\nstopped after {seconds:g} s\n")

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(optimized, written))
    report(folder, device)


def named(only: str) -> list[WholeModel]:
    by_name = {model.name: model for model in MODELS}
    names = only.split(",") if only else list(by_name)
    if unknown := [name for name in names if name not in by_name]:
        raise typer.BadParameter(f"no model is called {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names]


def missing(out: Path, wanted: Sequence[str]) -> list[str]:
    """Forms that were not measured, neither with parts nor to the end."""
    path = out / "whole_model.json"
    forms = json.loads(path.read_text(encoding="utf-8"))["forms"] if path.exists() else []
    done = {each["form"] for each in forms if not each["missing"] or each["speedups"] or "no faster part" in each["missing"]}
    return [name for name in wanted if name not in done]


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
