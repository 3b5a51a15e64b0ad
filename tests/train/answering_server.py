"""A server of the toy world's model that speaks vLLM's routes, as a process of its own: vLLM itself runs on GPUs only.

    python answering_server.py FOLDER PORT [MOMENT]

Real are the HTTP, the model, its tokens and log-probs, adapters and files of weights; a broadcast goes over gloo where vLLM has NCCL. As there, an
update is open from start to finish, and no other begins meanwhile. MOMENT `N` ends the process by SIGKILL when it has been asked for the N-th
completion, `ROUTE@N` in the middle of the N-th call of another route, of an update after its first tensor. What it was asked is in
FOLDER/asked-PORT, a route a line.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import os
import signal
import sys
import threading
from collections import Counter
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.distributed as dist
from toy_world import toy_loaded

from bottega.backbone.chat import Sampling, TokenRequest
from bottega.backbone.local import LocalBackbone


class GlooGroup:
    """What is used of vLLM's communicator."""

    def __init__(self, place: dict[str, Any], rank: int) -> None:
        patience = timedelta(seconds=60)
        size = place["world_size"]
        store = dist.TCPStore(place["master_address"], place["master_port"], size, rank == 0, timeout=patience)
        self._group = dist.ProcessGroupGloo(store, rank, size, patience)

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        self._group.broadcast(tensor, src).wait()

    def destroy(self) -> None:
        self._group.abort()


class Served:
    def __init__(self, folder: Path, port: int, moment: str) -> None:
        self.loaded = toy_loaded()
        route, _, self.last = moment.rpartition("@")
        self.last_route = route or "/v1/completions"
        self.asked = (folder / f"asked-{port}").open("a", buffering=1)
        self.counts = Counter[str]()
        self.lock = threading.Lock()
        self.group: GlooGroup | None = None
        self.paused = self.updating = False
        self.models = {"toy": LocalBackbone(self.loaded, slots=1)}

    def die_if_due(self, route: str) -> None:
        if route == self.last_route and str(self.counts[route]) == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        backbone = self.models.get(body["model"])
        if backbone is None:
            return 404, {"error": {"message": f"no model {body['model']}"}}
        if self.paused:
            return 409, {"error": {"message": "nothing is drawn while weights change"}}
        assert body["top_p"] == 1.0 and body["top_k"] == -1 and body["return_token_ids"]
        sampling = Sampling(body["max_tokens"], body["temperature"], body.get("seed"), tuple(body.get("stop", ())))
        (found,) = asyncio.run(backbone.complete([TokenRequest(tuple(body["prompt"]), sampling)]))
        choice = {
            "token_ids": found.output_ids,
            "logprobs": {"token_logprobs": found.logprobs},
            "finish_reason": found.stop_reason,
        }
        return 200, {"choices": [choice]}

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self.lock:
            self.counts[path] += 1
            if path != "/update_weights":
                self.die_if_due(path)
        if path == "/v1/completions":
            return self.complete(body)
        self.asked.write(path + "\n")
        if path == "/v1/load_lora_adapter":
            import peft

            plain = copy.deepcopy(self.loaded.model)
            adapted = peft.PeftModel.from_pretrained(plain, body["lora_path"]).eval()
            self.models[body["lora_name"]] = LocalBackbone(dataclasses.replace(self.loaded, model=adapted), slots=1)
        elif path == "/v1/unload_lora_adapter":
            del self.models[body["lora_name"]]
        elif path == "/collective_rpc":
            from safetensors.torch import load_file

            self.load(load_file(Path(body["kwargs"]["weights_path"]) / "model.safetensors"))
            return 200, {"results": [None]}
        elif path == "/init_weight_transfer_engine":
            place = body["init_info"]
            self.group = GlooGroup(place, place["rank_offset"])
        elif path in ("/pause", "/resume"):
            self.paused = path == "/pause"
        elif path in ("/start_weight_update", "/update_weights", "/finish_weight_update"):
            if self.updating is (path == "/start_weight_update"):
                return 500, {"error": {"message": "an update is active" if self.updating else "no update is active"}}
            if path == "/update_weights":
                self.receive(body["update_info"])
            self.updating = path != "/finish_weight_update"
        elif path != "/reset_prefix_cache":
            return 404, {}
        return 200, {"status": "done"}

    def receive(self, listed: dict[str, list[Any]]) -> None:
        assert self.group is not None
        found = {}
        for name, kind, shape in zip(listed["names"], listed["dtype_names"], listed["shapes"], strict=True):
            found[name] = torch.empty(shape, dtype=getattr(torch, kind))
            self.group.broadcast(found[name], 0)
            self.die_if_due("/update_weights")
        self.load(found)

    def load(self, weights: dict[str, torch.Tensor]) -> None:
        self.loaded.model.load_state_dict(weights)
        self.models["toy"].weights_changed()


class Handler(BaseHTTPRequestHandler):
    served: Served
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        known = {
            "/health": {},
            "/get_world_size": {"world_size": 1},
            "/v1/models": {"data": [{"id": name} for name in self.served.models]},
        }
        self.answer(200 if self.path in known else 404, known.get(self.path, {}))

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        try:
            self.answer(*self.served.post(self.path.partition("?")[0], body))
        except Exception as error:
            self.answer(500, {"error": {"message": repr(error)}})

    def answer(self, status: int, content: Any) -> None:
        told = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    Handler.served = Served(folder, port, sys.argv[3] if len(sys.argv) > 3 else "0")
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
