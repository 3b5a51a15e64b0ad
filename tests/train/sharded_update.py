"""One update by groups of ranks of several sizes, held against the update of one process: run by torchrun with 4 processes.

    torchrun --nproc-per-node 4 sharded_update.py FOLDER

What came out is in FOLDER/found.json: for each case the largest difference of a parameter after two updates, relative to how far the updates moved
the parameters, and that of the loss.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.distributed as dist
from tiny import random_rows, tiny_llama

from bottega.train.learner import Learner, follow
from bottega.train.ranks import Ranks
from bottega.train.settings import Config, LossSettings, ModelSettings, OptimiserSettings, ShardingSettings


def lora(model: Any) -> Any:
    import peft

    torch.manual_seed(1)
    found = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return found


def other_family(model: Any) -> Any:
    """One that takes transformers' own pass."""
    import transformers

    torch.manual_seed(2)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=50, n_embd=32, n_layer=2, n_head=2, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
        )
    ).eval()


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "full": (lambda model: model, {}),
    "lora": (lora, {}),
    "recompute": (lambda model: model, {"recompute": True}),
    "foreign": (other_family, {}),
}


def config_of(model: dict[str, Any], offload: bool = False) -> Config:
    return Config(
        model=ModelSettings(device="cpu", **model),
        sharding=ShardingSettings(offload=offload),
        optimiser=OptimiserSettings(lr=1e-2, clip=0.5),
        loss=LossSettings(normalise="tokens"),
    )


def two_updates(learner: Learner) -> tuple[dict[str, torch.Tensor], list[float]]:
    packs = learner.policy.packs(random_rows(9), 32)  # more packs than ranks, and not as many for each
    losses = [learner.update(packs, number, 2).loss for number in range(2)]
    return {name: value.detach().clone() for name, value in learner.whole_model().named_parameters()}, losses


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, found = dist.get_rank(), {}
    for size in (2, 4):
        group = dist.new_group(list(range(size)), backend="gloo")
        if rank >= size:
            continue
        ranks = Ranks(rank, size, group)
        if not ranks.leads:
            follow(ranks)
            continue
        for name, (made, options) in CASES.items():
            before = {key: value.detach().clone() for key, value in made(tiny_llama()).named_parameters()}
            alone, expected = two_updates(Learner.begin(config_of(options), made(tiny_llama())))
            learner = Learner.begin(config_of(options), made(tiny_llama()), ranks, reference=True)
            rows = random_rows(9)
            seen = learner.row_logprobs(rows, 32, reference=True)
            single = Learner.begin(config_of(options), made(tiny_llama())).row_logprobs(rows, 32)
            together, losses = two_updates(learner)
            learner.show()
            moved = max(float((alone[key] - before[key]).abs().max()) for key in alone)
            found[f"{name}/{size}"] = {
                "weights": max(float((together[key] - alone[key]).abs().max()) for key in alone) / moved,
                "losses": max(abs(a - b) for a, b in zip(losses, expected)),
                "logprobs": max(float(abs(a - b).max()) for a, b in zip(seen, single)),
                "shown": max(float((value - together[key]).abs().max()) for key, value in learner.whole.named_parameters()),
            }
        ranks.tell(None)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
