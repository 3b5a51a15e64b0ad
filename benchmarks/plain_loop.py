"""The loop that evaluators of generated kernels commonly are, written from its description, to compare the judge with.

One fresh process for a kernel: run both texts in it, build both models from the same seed, compare five times on random inputs with
`torch.allclose` at 1e-2, then time a hundred runs of each on the same inputs after a warm-up, by device events (by the host's clock
on a CPU), and divide the means. What it trusts, a candidate in the same process can change; `peer_evaluators.py` shows that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SEED = 42
COMPARISONS = 5
TOLERANCE = 1e-2
WARM_UP = 5
RUNS = 100


def in_sandbox(fds: list[int], arguments: dict[str, Any]) -> None:
    """The entry of a sandboxed process: everything else happens in a fresh interpreter below it, as where one is spawned for a kernel."""
    Path("job.json").write_text(json.dumps(arguments), encoding="utf-8", errors="surrogatepass")
    command = [sys.executable, __file__, "job.json", str(fds[0])]
    subprocess.run(command, pass_fds=fds[:1], check=False, timeout=arguments["timeout"])


def evaluate(task: str, candidate: str, device: str) -> dict[str, Any]:
    """`correct`, and where it is: mean times in milliseconds, and `speedup`, their quotient. `error` where something raised."""
    import torch

    reference_names: dict[str, Any] = {"__name__": "reference"}
    candidate_names: dict[str, Any] = {"__name__": "candidate"}
    try:
        _run_text(task, "reference.py", reference_names)
        _run_text(candidate, "candidate.py", candidate_names)
        with torch.no_grad():
            models = []
            for names, name in ((reference_names, "Model"), (candidate_names, "ModelNew")):
                torch.manual_seed(SEED)
                models.append(names[name](*reference_names["get_init_inputs"]()).to(device))
            for trial in range(COMPARISONS):
                inputs = _inputs(reference_names, trial, device)
                expected = models[0](*inputs)
                found = models[1](*inputs)
                if not _close(expected, found):
                    return {"correct": False}
            inputs = _inputs(reference_names, SEED, device)
            baseline, mine = (_mean_ms(model, inputs, device) for model in models)
    except Exception as error:
        return {"correct": False, "error": f"{type(error).__name__}: {error}"[:300]}
    return {
        "correct": True,
        "baseline_ms": baseline,
        "candidate_ms": mine,
        "speedup": baseline / mine if mine else float("inf"),
    }


def _run_text(source: str, name: str, names: dict[str, Any]) -> None:
    path = Path(name).absolute()
    path.write_text(source, encoding="utf-8")  # Triton reads kernels from their file
    names["__file__"] = str(path)
    exec(compile(source, str(path), "exec"), names)


def _inputs(names: dict[str, Any], seed: int, device: str) -> list[Any]:
    import torch

    torch.manual_seed(seed)
    return [each.to(device) if isinstance(each, torch.Tensor) else each for each in names["get_inputs"]()]


def _close(expected: Any, found: Any) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    pairs = list(zip(tree_leaves(expected), tree_leaves(found)))
    if len(tree_leaves(expected)) != len(tree_leaves(found)):
        return False
    return all(
        torch.allclose(one.float(), two.float(), atol=TOLERANCE, rtol=TOLERANCE) and one.shape == two.shape
        if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor)
        else one == two
        for one, two in pairs
    )


def _mean_ms(model: Any, inputs: list[Any], device: str) -> float:
    import torch

    for _ in range(WARM_UP):
        model(*inputs)
    times = []
    for _ in range(RUNS):
        if device == "cpu":
            begun = time.perf_counter()
            model(*inputs)
            times.append((time.perf_counter() - begun) * 1e3)
            continue
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        first.record()
        model(*inputs)
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last))
    return sum(times) / len(times)


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8", errors="surrogatepass"))
    sys.path[0] = ""  # a candidate module that is imported again is looked for here, not beside this script
    os.write(int(sys.argv[2]), json.dumps(evaluate(job["task"], job["candidate"], job["device"])).encode())
