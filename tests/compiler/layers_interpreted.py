"""Runs layers and networks of the layer form by Triton's interpreter, against torch in fp64. Started as a process of its own:

TRITON_INTERPRET=1 python layers_interpreted.py layers | networks
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from typing import Any

import torch
from network_tasks import NETWORKS
from torch import nn
from triton_interpreted import distance, loaded, stand_in

from bottega.compiler.layers.passes import KINDS
from bottega.compiler.layers.steps import layer_steps
from bottega.compiler.library.index import kernel_library

LAYERS: list[tuple[str, str, tuple[int, ...]]] = [
    ("Conv2d", "16, 17, 3", (2, 16, 7, 6)),
    ("Conv2d", "33, 16, 1", (3, 33, 5, 4)),
    ("Conv2d", "16, 80, 1, 2, bias=False", (2, 16, 5, 6)),
    ("Conv2d", "40, 20, (3, 5), (2, 1), (1, 3), (1, 2)", (2, 40, 7, 9)),
    ("Conv2d", "16, 16, 4, padding='same'", (1, 16, 6, 6)),
    ("Conv2d", "16, 16, 3, padding='valid'", (1, 16, 6, 6)),
    ("Conv2d", "16, 16, 3, padding=1, padding_mode='reflect'", (1, 16, 6, 6)),
    ("Conv2d", "32, 32, 3, padding=2, dilation=2, groups=2", (1, 32, 6, 6)),
    ("Conv2d", "16, 16, 3, padding=1, groups=16", (1, 16, 6, 6)),
    ("Conv2d", "3, 16, 7, 2, 3", (1, 3, 9, 9)),
    ("Conv2d", "16, 2, 3", (1, 16, 5, 5)),
    ("Conv2d", "16, 32, 3, padding=1", (16, 5, 5)),
    ("Conv2d", "128, 70, 3, padding=1", (2, 128, 5, 5)),
    ("Conv1d", "16, 32, 5, 2, 2", (2, 16, 11)),
    ("Conv1d", "16, 32, 3, dilation=2, bias=False", (16, 9)),
    ("ConvTranspose2d", "16, 16, 2, 2", (2, 16, 4, 3)),
    ("ConvTranspose2d", "17, 16, 4, 2, 1", (2, 17, 4, 3)),
    ("ConvTranspose2d", "16, 18, 3, 2, 1, output_padding=1", (1, 16, 4, 5)),
    ("ConvTranspose2d", "16, 16, 3, 1, 1, bias=False", (1, 16, 4, 5)),
    ("ConvTranspose2d", "16, 16, (5, 3), 3, (2, 0)", (1, 16, 3, 4)),
    ("ConvTranspose2d", "16, 16, 3, (2, 1), 1", (1, 16, 3, 4)),
    ("ConvTranspose2d", "16, 16, 3, 2, dilation=2, groups=2", (1, 16, 3, 4)),
    ("BatchNorm2d", "5", (3, 5, 4, 7)),
    ("BatchNorm2d", "3, eps=0.1, momentum=0.3", (2, 3, 67, 62)),
    ("BatchNorm2d", "5, affine=False", (3, 5, 4, 7)),
    ("BatchNorm2d", "5, track_running_stats=False", (3, 5, 4, 7)),
    ("BatchNorm2d", "5, momentum=None", (3, 5, 4, 7)),
    ("GroupNorm", "32, 64", (2, 64, 3, 5)),
    ("GroupNorm", "16, 16", (4, 16, 9, 457)),
    ("GroupNorm", "4, 16", (4, 16, 7)),
    ("GroupNorm", "32, 64, affine=False", (2, 64, 3, 5)),
    ("Linear", "40, 33", (37, 40)),
    ("Linear", "600, 65, bias=False", (3, 11, 600)),
    ("Linear", "40, 33", (40,)),
    ("Linear", "40, 2", (4, 40)),
]


def layers(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    ours = loaded(kernel_library().source_of(KINDS), folder, 0)
    for kind, arguments, shape in LAYERS:
        torch.manual_seed(0)
        mine = eval(f"ours.{kind}({arguments})", {"ours": ours})
        theirs = eval(f"nn.{kind}({arguments})", {"nn": nn})
        for parameter in mine.parameters():
            parameter.data += torch.randn(parameter.shape) * 0.1
        theirs.load_state_dict(mine.state_dict())
        x = torch.randn(shape) * 2 + 3
        x = x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x
        with torch.no_grad():
            got, wanted = mine(x), theirs.double()(x.double())
        # Running statistics are part of what a layer does.
        kept, wanted_kept = (tuple(value.double() for value in layer.state_dict().values()) for layer in (mine, theirs))
        found[f"{kind}({arguments}) {shape}"] = distance((got, *kept), (wanted, *wanted_kept))
    return found


def networks(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, (name, given) in enumerate(NETWORKS.items()):
        namespace: dict[str, Any] = {"__name__": "task"}
        exec(compile(given.source, given.name, "exec"), namespace)
        arguments, inputs = namespace["get_init_inputs"](), namespace["get_inputs"]()
        theirs = namespace["Model"](*arguments)
        state = {key: value.clone() for key, value in theirs.state_dict().items()}
        with torch.no_grad():
            wanted = theirs.double()(*(value.double() for value in inputs))
            # The last step without a graph holds every layer that the steps before it have.
            step = [step for step in layer_steps(given) if "CUDAGraph" not in step.candidate.source][-1]
            mine = loaded(step.candidate.source, folder, 1 + place).ModelNew(*arguments)
            mine.load_state_dict(state, strict=True)
            found[name] = distance(mine(*inputs), wanted)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    stand_in()
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps({"layers": layers, "networks": networks}[sys.argv[1]](temporary)))
