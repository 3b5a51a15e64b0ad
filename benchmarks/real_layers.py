"""Layers of installed packages at the shapes of real checkpoints, as tasks: bf16, random weights; and the built-in tasks beside them.

Each is written as somebody would wrap it: the package's class, built with the checkpoint's configuration, and a `forward` that calls it. A laptop
has the checkpoint's widths and few tokens; the small sizes give the same layer in a shape that Triton's interpreter runs on a CPU.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bottega.core.task import Task
from bottega.tasks.builtin import BUILTIN, builtin_files, load_builtin
from bottega.tasks.files import read_source, task_files

Sizes = dict[str, int]
Size = Literal["full", "laptop", "small"]
FEW_TOKENS, SOME_TOKENS = 32, 256
"""On a laptop, of layers with products and of those without."""


@dataclass(frozen=True)
class Layer:
    name: str
    imports: str
    build: str
    """The module, in terms of the sizes' names."""
    call: str
    """What `forward` returns, in terms of `self.layer` and the inputs' names."""
    inputs: dict[str, str]
    full: Sizes
    """Of the checkpoint."""
    small: Sizes
    dtype: str = "bfloat16"

    @property
    def package(self) -> str:
        return self.imports.split()[1].split(".")[0]

    def sizes(self, size: Size) -> Sizes:
        if size == "laptop":
            most = {"B": 1, "T": FEW_TOKENS if "HIDDEN" in self.full else SOME_TOKENS}
            return {key: min(value, most.get(key, value)) for key, value in self.full.items()}
        return self.full if size == "full" else self.small

    def task(self, size: Size = "full") -> Task:
        source = f"""{self._module("Model", self.build, self.call, size)}

def get_inputs():
    return [{", ".join(self.inputs.values())}]


def get_init_inputs():
    return []
"""
        return Task(source, self.name).validate()

    def liger(self, size: Size = "full") -> str:
        """The same layer with the class or function of Liger-Kernel that its authors put in the place of this one; empty where there is none."""
        if self.name not in LIGER:
            return ""
        build, call = LIGER[self.name]
        return self._module(
            "ModelNew", build or self.build, call or self.call, size, "import liger_kernel.transformers as liger\n"
        )

    def _module(self, name: str, build: str, call: str, size: Size, imports: str = "") -> str:
        sizes = self.sizes(size)
        names, values = ", ".join(sizes), ", ".join(map(str, sizes.values()))
        return f"""import torch
import torch.nn as nn
{imports}{self.imports}

{names}, = {values},
H = torch.{self.dtype}
{DRAWN if "drawn(" in build else ""}

class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {build}.to(H).eval()

    def forward(self, {", ".join(self.inputs)}):
        return {call}
"""


@dataclass(frozen=True)
class TaskFile:
    """In the place of a layer: its sizes and types are its own."""

    file: Path
    builtin: bool

    @property
    def name(self) -> str:
        return self.file.stem if self.builtin else f"{self.file.parent.name}/{self.file.stem}"

    def task(self, size: Size = "full") -> Task:
        if self.builtin:
            return load_builtin(self.file, "gpu" if size == "full" else "cpu")
        return Task(read_source(self.file), self.name).validate()

    def liger(self, size: Size = "full") -> str:
        return ""


DRAWN = """

def drawn(module):
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.02)
    return module

"""
"""For modules whose weights nobody draws until a checkpoint is read."""
_T = "torch.randn(B, T, DIM, dtype=H)"
_IMAGE = "torch.randn(B, DIM, S, S, dtype=H)"
_ROPE = {"cos": "torch.randn(1, T, WIDTH, dtype=H)", "sin": "torch.randn(1, T, WIDTH, dtype=H)"}


def _of(model: str, names: str, configuration: str = "") -> str:
    head = f"from transformers.models.{model}.modeling_{model} import {names}"
    return f"from transformers import {configuration}\n{head}" if configuration else head


def _configured(configuration: str, more: str = "") -> str:
    return (
        f"{configuration}(hidden_size=DIM, num_attention_heads=HEADS, num_key_value_heads=GROUPS, intermediate_size=HIDDEN, "
        f"head_dim=WIDTH, attn_implementation='sdpa'{more})"
    )


def _decoder(name: str, model: str, kind: str, full: tuple[int, ...], more: str = "", groups: bool = True) -> Layer:
    """A decoder layer over a prompt: `full` is batch, tokens, dimension, heads, groups, width of a head, hidden dimension."""
    keys = ("B", "T", "DIM", "HEADS", "GROUPS", "WIDTH", "HIDDEN")
    small = dict(zip(keys, (2, 6, 32, 4, 2 if groups else 4, 8, 48)))
    build = f"{kind}DecoderLayer({_configured(f'{kind}Config', more)}, 0)"
    call = "self.layer(hidden, position_embeddings=(cos, sin))"
    imports = _of(model, f"{kind}DecoderLayer", f"{kind}Config")
    return Layer(name, imports, build, call, {"hidden": _T, **_ROPE}, dict(zip(keys, full)), small)


def _gated(name: str, model: str, kind: str, batch: int, tokens: int, dim: int, hidden: int) -> Layer:
    build = f"{kind}MLP({kind}Config(hidden_size=DIM, intermediate_size=HIDDEN))"
    full = {"B": batch, "T": tokens, "DIM": dim, "HIDDEN": hidden}
    small = {"B": 2, "T": 5, "DIM": 32, "HIDDEN": 48}
    return Layer(name, _of(model, f"{kind}MLP", f"{kind}Config"), build, "self.layer(hidden)", {"hidden": _T}, full, small)


def _norm(name: str, model: str, kind: str, dim: int) -> Layer:
    full, small = {"B": 4, "T": 2048, "DIM": dim}, {"B": 2, "T": 3, "DIM": 24}
    return Layer(name, _of(model, kind), f"{kind}(DIM)", "self.layer(hidden)", {"hidden": _T}, full, small)


def _encoder(
    name: str, model: str, kind: str, configuration: str, options: str, full: tuple[int, ...], call: str = "hidden"
) -> Layer:
    """An encoder's layer: `full` is batch, tokens, dimension, heads, hidden dimension."""
    keys = ("B", "T", "DIM", "HEADS", "HIDDEN")
    build = f"{kind}({configuration}({options}, attn_implementation='sdpa'))"
    small = dict(zip(keys, (2, 6, 32, 4, 64)))
    imports = _of(model, kind, configuration)
    return Layer(name, imports, build, f"self.layer({call})", {"hidden": _T}, dict(zip(keys, full)), small)


def _convolution(name: str, imports: str, build: str, batch: int, dim: int, side: int, small: int = 16) -> Layer:
    full = {"B": batch, "DIM": dim, "S": side}
    return Layer(name, imports, build, "self.layer(x)", {"x": _IMAGE}, full, {"B": 2, "DIM": small, "S": 6})


_USUAL = "hidden_size=DIM, num_attention_heads=HEADS, intermediate_size=HIDDEN"
_TOKENS = {"B": 16, "T": 512, "DIM": 768, "HIDDEN": 3072}
_FEW = {"B": 2, "T": 5, "DIM": 32, "HIDDEN": 48}

LAYERS = (
    # Norms, rotary, losses, embeddings: no product, or none that counts.
    _norm("llama_rms_norm", "llama", "LlamaRMSNorm", 4096),
    _norm("gemma3_rms_norm", "gemma3", "Gemma3RMSNorm", 3840),
    _norm("t5_layer_norm", "t5", "T5LayerNorm", 2048),
    Layer("llama_rotary", _of("llama", "apply_rotary_pos_emb"), "nn.Identity()", "apply_rotary_pos_emb(q, k, cos, sin)",
          {"q": "torch.randn(B, T, HEADS, WIDTH, dtype=H).transpose(1, 2)", "k": "torch.randn(B, GROUPS, T, WIDTH, dtype=H)", **_ROPE},
          {"B": 2, "T": 4096, "HEADS": 32, "GROUPS": 8, "WIDTH": 128}, {"B": 2, "T": 5, "HEADS": 4, "GROUPS": 2, "WIDTH": 8}),
    Layer("causal_lm_loss", "from transformers.loss.loss_utils import ForCausalLMLoss", "nn.Identity()",
          "ForCausalLMLoss(logits, labels, VOCABULARY)",
          {"logits": "torch.randn(B, T, VOCABULARY, dtype=H)", "labels": "torch.randint(0, VOCABULARY, (B, T))"},
          {"B": 2, "T": 1024, "VOCABULARY": 128256}, {"B": 2, "T": 4, "VOCABULARY": 50}),
    Layer("bert_embeddings", _of("bert", "BertEmbeddings", "BertConfig"), "BertEmbeddings(BertConfig(hidden_size=DIM, vocab_size=WORDS))",
          "self.layer(words)", {"words": "torch.randint(0, WORDS, (B, T))"},
          {"B": 32, "T": 512, "DIM": 768, "WORDS": 30522}, {"B": 2, "T": 5, "DIM": 32, "WORDS": 40}),
    Layer("mixtral_router", _of("mixtral", "MixtralTopKRouter", "MixtralConfig"),
          "drawn(MixtralTopKRouter(MixtralConfig(hidden_size=DIM, num_local_experts=EXPERTS, num_experts_per_tok=2)))", "self.layer(hidden)",
          {"hidden": "torch.randn(T, DIM, dtype=H)"}, {"T": 8192, "DIM": 4096, "EXPERTS": 8}, {"T": 6, "DIM": 32, "EXPERTS": 4}),
    Layer("mixtral_experts", _of("mixtral", "MixtralSparseMoeBlock", "MixtralConfig"),
          "drawn(MixtralSparseMoeBlock(MixtralConfig(hidden_size=DIM, intermediate_size=HIDDEN, num_local_experts=EXPERTS, num_experts_per_tok=2)))",
          "self.layer(hidden)", {"hidden": _T},
          {"B": 1, "T": 4096, "DIM": 2048, "HIDDEN": 4096, "EXPERTS": 8}, {"B": 2, "T": 6, "DIM": 32, "HIDDEN": 48, "EXPERTS": 4}),
    Layer("lm_head_loss", "from torch.nn.functional import cross_entropy", "nn.Linear(DIM, VOCABULARY, bias=False)",
          "cross_entropy(self.layer(hidden).float().view(-1, VOCABULARY), labels.view(-1))",
          {"hidden": _T, "labels": "torch.randint(0, VOCABULARY, (B, T))"},
          {"B": 2, "T": 2048, "DIM": 2048, "VOCABULARY": 128256}, {"B": 2, "T": 4, "DIM": 32, "VOCABULARY": 50}),
    # Feed-forward layers: products with something around them.
    _gated("llama_mlp", "llama", "Llama", 1, 2048, 4096, 14336),
    _gated("llama_mlp_decode", "llama", "Llama", 16, 1, 4096, 14336),
    _gated("phi3_mlp", "phi3", "Phi3", 1, 2048, 3072, 8192),
    _gated("gemma2_mlp", "gemma2", "Gemma2", 1, 2048, 2304, 9216),
    _gated("qwen3_mlp_small", "qwen3", "Qwen3", 4, 512, 1024, 3072),
    Layer("gpt2_mlp", _of("gpt2", "GPT2MLP", "GPT2Config"), "GPT2MLP(HIDDEN, GPT2Config(n_embd=DIM))", "self.layer(hidden)",
          {"hidden": _T}, _TOKENS, _FEW),
    Layer("bert_output", _of("bert", "BertOutput", "BertConfig"), "BertOutput(BertConfig(hidden_size=DIM, intermediate_size=HIDDEN))",
          "self.layer(hidden, before)", {"hidden": "torch.randn(B, T, HIDDEN, dtype=H)", "before": _T}, _TOKENS, _FEW),
    Layer("t5_feed_forward", _of("t5", "T5LayerFF", "T5Config"),
          "T5LayerFF(T5Config(d_model=DIM, d_ff=HIDDEN, feed_forward_proj='gated-gelu'))", "self.layer(hidden)", {"hidden": _T},
          {"B": 4, "T": 512, "DIM": 2048, "HIDDEN": 5120}, _FEW),
    Layer("modernbert_mlp", _of("modernbert", "ModernBertMLP", "ModernBertConfig"),
          "ModernBertMLP(ModernBertConfig(hidden_size=DIM, intermediate_size=HIDDEN))", "self.layer(hidden)", {"hidden": _T},
          {"B": 8, "T": 1024, "DIM": 768, "HIDDEN": 1152}, _FEW),
    Layer("bloom_mlp", _of("bloom", "BloomMLP", "BloomConfig"), "BloomMLP(BloomConfig(hidden_size=DIM))", "self.layer(hidden, residual)",
          {"hidden": _T, "residual": _T}, {"B": 2, "T": 1024, "DIM": 1536}, {"B": 2, "T": 5, "DIM": 32}),
    # Whole layers of decoders and encoders.
    _decoder("llama_layer", "llama", "Llama", (1, 2048, 4096, 32, 8, 128, 14336)),
    _decoder("llama_1b_layer", "llama", "Llama", (4, 512, 2048, 32, 8, 64, 8192)),
    _decoder("qwen3_layer", "qwen3", "Qwen3", (2, 1024, 1024, 16, 8, 128, 3072)),
    _decoder("phi3_layer", "phi3", "Phi3", (1, 1024, 3072, 32, 32, 96, 8192), ", pad_token_id=0", groups=False),
    _decoder("olmo2_layer", "olmo2", "Olmo2", (1, 1024, 2048, 16, 16, 128, 8192), groups=False),
    _decoder("granite_layer", "granite", "Granite", (1, 1024, 2048, 32, 8, 64, 8192)),
    Layer("gpt2_block", _of("gpt2", "GPT2Block", "GPT2Config"), "GPT2Block(GPT2Config(n_embd=DIM, n_head=HEADS, attn_implementation='sdpa'), 0)",
          "self.layer(hidden)", {"hidden": _T}, {"B": 8, "T": 1024, "DIM": 768, "HEADS": 12}, {"B": 2, "T": 5, "DIM": 32, "HEADS": 4}),
    Layer("gpt_neox_layer", _of("gpt_neox", "GPTNeoXLayer", "GPTNeoXConfig"),
          f"GPTNeoXLayer(GPTNeoXConfig({_USUAL}, attn_implementation='sdpa'), 0)", "self.layer(hidden, position_embeddings=(cos, sin))",
          {"hidden": _T, "cos": "torch.randn(1, T, WIDTH, dtype=H)", "sin": "torch.randn(1, T, WIDTH, dtype=H)"},
          {"B": 2, "T": 1024, "DIM": 2048, "HEADS": 16, "WIDTH": 32, "HIDDEN": 8192},
          {"B": 2, "T": 5, "DIM": 32, "HEADS": 4, "WIDTH": 2, "HIDDEN": 48}),
    _encoder("bert_layer", "bert", "BertLayer", "BertConfig", _USUAL, (16, 512, 768, 12, 3072)),
    _encoder("vit_layer", "vit", "ViTLayer", "ViTConfig", _USUAL, (64, 197, 768, 12, 3072)),
    _encoder("dinov2_layer", "dinov2", "Dinov2Layer", "Dinov2Config", "hidden_size=DIM, num_attention_heads=HEADS", (32, 257, 1024, 16, 4096)),
    _encoder("clip_layer", "clip", "CLIPEncoderLayer", "CLIPVisionConfig", _USUAL, (32, 257, 1024, 16, 4096), "hidden, None"),
    _encoder("whisper_layer", "whisper", "WhisperEncoderLayer", "WhisperConfig",
             "d_model=DIM, encoder_attention_heads=HEADS, encoder_ffn_dim=HIDDEN", (4, 1500, 768, 12, 3072), "hidden, None"),
    # Convolutions.
    _convolution("convnext_layer", _of("convnext", "ConvNextLayer", "ConvNextConfig"), "ConvNextLayer(ConvNextConfig(), DIM)", 32, 192, 28),
    _convolution("convnextv2_layer", _of("convnextv2", "ConvNextV2Layer", "ConvNextV2Config"),
                 "ConvNextV2Layer(ConvNextV2Config(), DIM)", 32, 192, 28),
    _convolution("resnet_bottleneck", _of("resnet", "ResNetBottleNeckLayer"), "ResNetBottleNeckLayer(DIM, DIM)", 32, 256, 56),
    _convolution("mobilenet_v2_block", _of("mobilenet_v2", "MobileNetV2InvertedResidual", "MobileNetV2Config"),
                 "MobileNetV2InvertedResidual(MobileNetV2Config(), DIM, DIM, 1)", 64, 32, 28),
    _convolution("efficientnet_block", _of("efficientnet", "EfficientNetBlock", "EfficientNetConfig"),
                 "EfficientNetBlock(EfficientNetConfig(), DIM, DIM, 1, 6, 3, 0.0, True, False)", 64, 40, 28),
    Layer("wav2vec2_conv_norm", _of("wav2vec2", "Wav2Vec2LayerNormConvLayer", "Wav2Vec2Config"),
          "Wav2Vec2LayerNormConvLayer(Wav2Vec2Config(conv_dim=(DIM,) * 7, conv_bias=True), 1)", "self.layer(x)",
          {"x": "torch.randn(B, DIM, T, dtype=H)"}, {"B": 8, "DIM": 512, "T": 3999}, {"B": 2, "DIM": 16, "T": 21}),
    _convolution("torchvision_convnext", "from torchvision.models.convnext import CNBlock", "CNBlock(DIM, 1e-6, 0.0)", 32, 384, 14),
    _convolution("torchvision_bottleneck", "from torchvision.models.resnet import Bottleneck", "Bottleneck(DIM, DIM // 4)", 32, 1024, 14),
    _convolution("torchvision_inverted", "from torchvision.models.mobilenetv2 import InvertedResidual",
                 "InvertedResidual(DIM, DIM, 1, 6)", 64, 64, 14),
    Layer("torchvision_encoder", "from torchvision.models.vision_transformer import EncoderBlock", "EncoderBlock(HEADS, DIM, HIDDEN, 0.0, 0.0)",
          "self.layer(hidden)", {"hidden": _T}, {"B": 64, "T": 197, "DIM": 384, "HEADS": 6, "HIDDEN": 1536},
          {"B": 2, "T": 6, "DIM": 32, "HEADS": 4, "HIDDEN": 64}),
    Layer("torchvision_focal", "from torchvision.ops import sigmoid_focal_loss", "nn.Identity()",
          "sigmoid_focal_loss(logits, target, reduction='mean')",
          {"logits": "torch.randn(B, T, dtype=H)", "target": "torch.randint(0, 2, (B, T)).to(H)"}, {"B": 64, "T": 120087}, {"B": 2, "T": 30}),
)  # fmt: skip


def _liger_mlp(kind: str, model: str) -> tuple[str, str]:
    return f"liger.{kind}({model}Config(hidden_size=DIM, intermediate_size=HIDDEN))", ""


LIGER = {
    "llama_rms_norm": ("liger.LigerRMSNorm(DIM)", ""),
    "gemma3_rms_norm": ("liger.LigerRMSNorm(DIM, offset=1.0, casting_mode='gemma', init_fn='zeros')", ""),
    "t5_layer_norm": ("liger.LigerRMSNorm(DIM)", ""),
    "llama_rotary": ("", "liger.liger_rotary_pos_emb(q.clone(), k.clone(), cos, sin)"),
    "causal_lm_loss": (
        "",
        "liger.LigerCrossEntropyLoss()(logits[:, :-1].reshape(-1, VOCABULARY), labels[:, 1:].reshape(-1)).float()",
    ),
    "llama_mlp": _liger_mlp("LigerSwiGLUMLP", "Llama"),
    "llama_mlp_decode": _liger_mlp("LigerSwiGLUMLP", "Llama"),
    "phi3_mlp": _liger_mlp("LigerPhi3SwiGLUMLP", "Phi3"),
    "gemma2_mlp": _liger_mlp("LigerGEGLUMLP", "Gemma2"),
    "qwen3_mlp_small": _liger_mlp("LigerSwiGLUMLP", "Qwen3"),
}
"""By layer: what is built in its place, and how it is called. Liger's rotary embedding works in place, so it gets copies."""


def installed_layers() -> tuple[Layer, ...]:
    """Those whose package is here."""
    packages = {layer.package for layer in LAYERS}
    here = {package for package in packages if importlib.util.find_spec(package) is not None}
    return tuple(layer for layer in LAYERS if layer.package in here)


def task_files_of(tasks: str) -> tuple[TaskFile, ...]:
    """The built-in tasks, or those of a folder: all levels in turn, each level in its share, so that the first ones stand for all."""
    builtin = tasks == BUILTIN
    files = builtin_files() if builtin else task_files(Path(tasks))
    count, seen, place = Counter(file.parent for file in files), Counter[Path](), dict[Path, float]()
    for file in files:
        seen[file.parent] += 1
        place[file] = (seen[file.parent] - 0.5) / count[file.parent]
    return tuple(TaskFile(file, builtin) for file in sorted(files, key=place.__getitem__))
