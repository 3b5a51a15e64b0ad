"""Updates and checkpoints by groups of 2 and of 4 ranks, held against those of one process.

    python sharded_update.py FOLDER CASE...

Its 4 processes are forked from one that has imported everything, which is what takes the time. What came out is in FOLDER/found.json, one
entry for each case and number of ranks.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import peft
import torch
import torch.distributed as dist
import transformers
from tiny import random_rows, tiny_llama
from torch.distributed.device_mesh import DeviceMesh

from bottega.train.learner import Learner, follow
from bottega.train.ranks import Ranks
from bottega.train.settings import Config, LossSettings, ModelSettings, OptimiserSettings, ShardingSettings


def lora(model: Any) -> Any:
    torch.manual_seed(1)
    found = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return found


def other_family(model: Any) -> Any:
    """One that takes transformers' own pass."""
    torch.manual_seed(2)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=50, n_embd=32, n_layer=2, n_head=2, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
        )
    ).eval()


CASES: dict[str, tuple[Any, dict[str, Any], tuple[int, ...]]] = {
    "full": (lambda model: model, {}, (2, 4)),
    "lora": (lora, {}, (2, 4)),
    "recompute": (lambda model: model, {"recompute": True}, (2,)),
    "other family": (other_family, {}, (2,)),
    "offload": (lambda model: model, {"offload": True}, (2,)),
}
"""How a model is made, its settings, and the numbers of ranks."""


def config_of(options: dict[str, Any]) -> Config:
    return Config(
        model=ModelSettings(device="cpu", recompute=options.get("recompute", False)),
        sharding=ShardingSettings(offload=options.get("offload", False)),
        optimiser=OptimiserSettings(
            lr=1e-2, clip=0.5, epsilon=1e-4
        ),  # with 1e-8 a gradient of rounding errors alone moves a weight as far as any
        loss=LossSettings(normalise="tokens"),
    )


def updates(learner: Learner, *numbers: int) -> tuple[dict[str, torch.Tensor], list[float]]:
    """The weights after these updates, and the losses on the way."""
    packs = learner.policy.packs(random_rows(9), 32)  # no multiple of the ranks
    losses = [learner.update(packs, number, 4).loss for number in numbers]
    return {name: value.detach().clone() for name, value in learner.whole_model().named_parameters()}, losses


def apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return max(float((one[name] - other[name]).detach().abs().max()) for name in other)


def compared(made: Any, options: dict[str, Any], ranks: Ranks, folder: Path) -> dict[str, float]:
    config, rows = config_of(options), random_rows(9)

    def alone() -> Learner:
        return Learner.begin(config, made(tiny_llama()))

    before = {key: value.detach().clone() for key, value in made(tiny_llama()).named_parameters()}
    single, many = alone(), Learner.begin(config, made(tiny_llama()), ranks, reference=True)
    expected, losses = updates(single, 0, 1)
    single.save(folder / "one")
    later, _ = updates(single, 2)
    found, own = updates(many, 0, 1)
    many.show()
    many.save(folder / "many")
    opened = alone()
    opened.load(folder / "many")
    many.load(folder / "one")
    moved = apart(expected, before)
    return {
        "weights": apart(found, expected) / moved,
        "losses": max(abs(a - b) for a, b in zip(losses, own)),
        "logprobs": max(
            float(abs(a - b).max()) for a, b in zip(many.row_logprobs(rows, 32, True), alone().row_logprobs(rows, 32))
        ),
        "shown": apart(dict(many.whole.named_parameters()), found),
        "opened by one": apart(updates(opened, 2)[0], later) / moved,
        "opened by many": apart(updates(many, 2)[0], later) / moved,
    }


def on_one_gpu(folder: Path) -> None:
    """A mesh of one GPU: bf16, flash attention, compiled layers and the CPU's memory, without a second rank to sum with."""
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{folder}/store", rank=0, world_size=1)
    shape = {"hidden_size": 64, "intermediate_size": 128}
    found = {}
    for name, offload in (("gpu", False), ("gpu offload", True)):
        config = config_of({"offload": offload}).model_copy(update={"model": ModelSettings(device="cuda")})
        ranks = Ranks(0, 1, dist.new_group(backend="gloo"))
        alone, losses = updates(Learner.begin(config, tiny_llama(**shape).cuda()), 0, 1)
        many = Learner.begin(config, tiny_llama(**shape), ranks)
        own, sharded = updates(many, 0, 1)
        many.show()
        many.save(folder / name)
        many.load(folder / name)
        before = {key: value.detach() for key, value in tiny_llama(**shape).named_parameters()}
        alone = {key: value.cpu() for key, value in alone.items()}
        found[name] = {
            "weights": apart(own, alone) / apart(alone, before),
            "losses": max(abs(a - b) for a, b in zip(losses, sharded)),
        }
    (folder / "found.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def rank_main(rank: int, folder: Path, cases: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)
    found = {}
    for size in (2, 4):
        group = dist.new_group(list(range(size)), backend="gloo")
        mesh = DeviceMesh("cpu", list(range(size)))
        if rank >= size:
            continue
        ranks = Ranks(rank, size, group, torch.device("cpu"), mesh)
        if not ranks.leads:
            follow(ranks)
            continue
        for name in cases:
            made, options, sizes = CASES[name]
            if size in sizes:
                found[f"{name}, {size} ranks"] = compared(made, options, ranks, folder / f"{name}-{size}")
        ranks.tell(None)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["gpu"]:
        on_one_gpu(folder)
        return
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=rank_main, args=(rank, folder, sys.argv[2:]), daemon=True) for rank in range(4)]
    for rank in ranks:
        rank.start()
    while any(rank.is_alive() for rank in ranks):
        multiprocessing.connection.wait([rank.sentinel for rank in ranks if rank.is_alive()], timeout=0.2)
        if any(rank.exitcode for rank in ranks):  # the others would wait for it
            raise SystemExit("a rank failed")


if __name__ == "__main__":
    main()
