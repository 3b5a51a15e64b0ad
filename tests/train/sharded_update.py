"""Updates and checkpoints by groups of 2 and of 4 ranks, held against those of one process.

    python sharded_update.py FOLDER CASE...
    python sharded_update.py FOLDER bf16 cpu|cuda

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
from bottega.train.ranks import ALONE, Ranks
from bottega.train.settings import Config, LossSettings, ModelSettings, OptimiserSettings, ShardingSettings
from bottega.train.sharding import full


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


WIDE = {"hidden_size": 64, "intermediate_size": 128}
"""A shape that flash attention takes."""

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


def distance(
    one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], before: dict[str, torch.Tensor] | None = None
) -> float:
    """Between all tensors as one vector, as a share of how long `other` is, or of how far it is from `before`."""
    apart_by = sum(float((one[name] - value).double().square().sum()) for name, value in other.items())
    length = sum(float((value - (before[name] if before else 0)).double().square().sum()) for name, value in other.items())
    return float((apart_by / length) ** 0.5)


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


def in_precision(compute: str, device: str, ranks: Ranks = ALONE, offload: bool = False) -> Learner:
    model = ModelSettings(device=device, compute=compute)  # type: ignore[arg-type]
    whole = tiny_llama(**WIDE) if ranks.sharded else tiny_llama(**WIDE).to(device)
    return Learner.begin(config_of({"offload": offload}).model_copy(update={"model": model}), whole, ranks)


def told(learner: Learner) -> dict[str, Any]:
    """Of two updates: the first gradient as Adam keeps it, the second's norm before it is clipped, the losses, and the weights at the end."""
    first = updates(learner, 0)[1]
    gradient = {key: full(learner.optimiser.moments(each)["exp_avg"]).cpu().clone() for key, each in learner.trained().items()}
    second = learner.update(learner.policy.packs(random_rows(9), 32), 1, 4)
    weights = {key: value.detach().cpu() for key, value in learner.whole_model().named_parameters()}
    return {"gradient": gradient, "weights": weights, "losses": [*first, second.loss], "norm": second.values["gradient"]}


def in_bf16(folder: Path, device: str) -> None:
    """A mesh of one device, in bf16; on a GPU with flash attention, compiled layers and the CPU's memory as well.

    Single weights say nothing here: rounding turns the sign of a gradient that nearly cancels, and Adam's first steps go by the sign, so one
    weight in a thousand ends up elsewhere, also between bf16 and fp32 in one process. The whole gradient and the whole movement can be told.
    """
    backends = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backends, init_method=f"file://{folder}/store", rank=0, world_size=1)
    before = {key: value.detach() for key, value in tiny_llama(**WIDE).named_parameters()}
    found = {}
    for name, offload in ((device, False), (f"{device} offload", True))[: 2 if device == "cuda" else 1]:
        ranks = Ranks(0, 1, dist.new_group(backend="gloo"))
        many = in_precision("bfloat16", device, ranks, offload)
        sharded = told(many)
        alone, exact = (told(in_precision(compute, device)) for compute in ("bfloat16", "float32"))
        many.show()
        many.save(folder / name)
        many.load(folder / name)
        found[name] = {
            "gradient": distance(sharded["gradient"], alone["gradient"]),
            "gradient, from fp32": distance(sharded["gradient"], exact["gradient"]),
            "gradient of one process, from fp32": distance(alone["gradient"], exact["gradient"]),
            "norm": abs(sharded["norm"] / alone["norm"] - 1),
            "moved": distance(sharded["weights"], alone["weights"], before),
            "losses": max(abs(a - b) for a, b in zip(alone["losses"], sharded["losses"])),
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
    if sys.argv[2] == "bf16":
        in_bf16(folder, sys.argv[3])
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
