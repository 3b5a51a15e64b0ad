"""The passes that leave a network's text as it is, in the order in which they are applied."""

from __future__ import annotations

from dataclasses import dataclass

from bottega.compiler.compiler_pass import CompilerPass

CAPTURED = CompilerPass(
    "captured",
    "A network of many launches over tensors of fixed shapes, whose forward neither draws, nor waits for the device, nor keeps anything.",
    "Leave the network as it is and capture it in one CUDA graph, so that the host enqueues one thing instead of many.",
)


@dataclass(frozen=True)
class LayerPass(CompilerPass):
    kinds: tuple[str, ...] = ()
    """The classes of `torch.nn` that it stands for."""


LAYER_PASSES: tuple[LayerPass, ...] = (
    LayerPass(
        "convolution_layers",
        "A network with several convolutions of at least 16 channels without groups, fp32.",
        "Leave the network as it is and replace its convolutions by subclasses with one Triton kernel for every shape.",
        ("triton_implicit_gemm_conv", "triton_dot_precision"),
        ("Conv2d", "Conv1d", "ConvTranspose2d"),
    ),
    LayerPass(
        "linear_layers",
        "A network with several linear layers of at least 32 rows, inputs and outputs, fp32.",
        "Leave the network as it is and replace its linear layers by a subclass with one Triton kernel for every shape.",
        ("triton_dot_precision", "triton_split_k"),
        ("Linear",),
    ),
    LayerPass(
        "norm_layers",
        "A network with batch norms that train, or group norms of at least 64 groups in the batch, fp32.",
        "Leave the network as it is and replace its normalisations by subclasses with Triton kernels for their statistics.",
        ("triton_group_norm_split_statistics",),
        ("BatchNorm2d", "GroupNorm"),
    ),
)
KINDS = tuple(kind for pass_ in LAYER_PASSES for kind in pass_.kinds)
