"""A small task as text: what `forward` returns, its inputs, and what stands in the constructor and before the return, each line after `; `."""

from __future__ import annotations

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}
    def forward(self, {arguments}):
{before}        return {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def module_task(body: str, inputs: str = "torch.randn(6, 37)", arguments: str = "x", init: str = "", before: str = "") -> str:
    lines, first = ("".join(f"        {line}\n" for line in text.split("; ") if line) for text in (init, before))
    return HEAD.format(init=lines, arguments=arguments, before=first, body=body, inputs=inputs)
