"""A model spread over the ranks by FSDP2: each keeps a slice of every parameter, and a layer is whole only while it is computed.

The leader alone reads a model from the disk. It sends the others an outline of the module, without a single weight, and then each rank its slice
of each parameter; so nobody else needs the files, and nobody ever holds more than the leader does. Gradients are summed, not averaged:
every rank divides its loss by what all ranks learn from together, and the update is the one that a single process would take.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from bottega.train.ranks import Ranks


def outline(model: Any) -> Any:
    """A copy of the module whose parameters have shapes and no memory; its buffers are small and come along."""
    empty = {
        id(each): nn.Parameter(torch.empty_like(each, device="meta"), requires_grad=each.requires_grad)
        for each in model.parameters()
    }
    return copy.deepcopy(model, empty)


def shard(root: nn.Module, layers: Iterable[nn.Module], ranks: Ranks, dtype: torch.dtype, offload: bool) -> None:
    """`layers` are gathered one by one as the pass comes to them, what `root` has beside them for the whole pass.

    Inputs are left as they are: positions rounded to bf16 would be other positions.
    """
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    rounding = MixedPrecisionPolicy(
        param_dtype=None if dtype == torch.float32 else dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for module in (*layers, root):
        sharded = fully_shard(
            module, mesh=ranks.mesh, reshard_after_forward=True, mp_policy=rounding,
            offload_policy=CPUOffloadPolicy(pin_memory=torch.cuda.is_available()) if offload else OffloadPolicy(),
        )  # fmt: skip
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)


def fill(model: Any, whole: Any, ranks: Ranks, offload: bool) -> None:
    """Give each rank its slice of the leader's weights. `whole` is the leader's; the others have none."""
    from torch.distributed.tensor import distribute_tensor

    given = dict(whole.named_parameters()) if whole is not None else {}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    filled: dict[int, nn.Parameter] = {}
    for module in list(model.modules()):
        for leaf, buffer in module._buffers.items():
            module._buffers[leaf] = buffer.to(ranks.device) if buffer is not None else None
        for leaf, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            if id(parameter) not in filled:
                full = (
                    given[names[id(parameter)]].detach().to(ranks.device)
                    if ranks.leads
                    else torch.empty(parameter.shape, dtype=parameter.dtype, device=ranks.device)
                )
                part = distribute_tensor(full, parameter.device_mesh, parameter.placements)
                if offload:  # of the same mesh, and yet in the memory of the CPU: only `empty_like` makes such a one
                    own = part.to_local()
                    part = cast(Any, torch.empty_like(parameter.detach(), device="cpu"))
                    part.to_local().copy_(own)
                filled[id(parameter)] = nn.Parameter(part, requires_grad=parameter.requires_grad)
            setattr(module, leaf, filled[id(parameter)])


def full(tensor: Tensor) -> Tensor:
    """All slices of a tensor, on every rank; a tensor that is not sharded as it is."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def filled_outline(empty: Any, weights: Mapping[str, Tensor]) -> Any:
    """The inverse of `outline`: a whole module with these weights, by name."""
    given = {id(each): nn.Parameter(weights[name], requires_grad=each.requires_grad) for name, each in empty.named_parameters()}
    return copy.deepcopy(empty, given)


def blocks_of(model: Any) -> list[nn.Module]:
    """The layers of any transformers model: the longest list of modules in it."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len, default=[])
