"""How servers that draw answers get the weights that were learned: an adapter's files, the whole model's files, CUDA IPC, or an NCCL broadcast.

Files need a folder that trainer and servers share, and nothing else; an adapter's are small. IPC is for a server on the trainer's own GPU, NCCL for
one on another GPU or machine. Both speak vLLM's routes (/init_weight_transfer_engine, /start_weight_update, /update_weights,
/finish_weight_update) in what its versions from 0.26 to 0.33 have in common: one tensor after the other, none packed. NCCL would wait for ever for a
server that died in the middle of a broadcast: the group is given up then, and those that were in it have to be started anew.
"""

from __future__ import annotations

import base64
import hashlib
import pickle
import secrets
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import torch
from torch import Tensor

from bottega.backbone.vllm import NamedWeights
from bottega.core.errors import BackboneError
from bottega.train.checkpoint import written_whole

if TYPE_CHECKING:
    from bottega.backbone.token_server import TokenServer
    from bottega.backbone.token_servers import WeightTransfer

CHUNK_BYTES = 2**30
"""Of one update by IPC, which holds a copy in the dtype that is sent."""
EARLY_SECONDS = 2.0
"""Within them a server says that it refuses to meet, or the first update of a group; the trainer would wait for it for ever."""
REST_SECONDS = 20.0
"""How long a broadcast may still take when one of its servers is lost."""
MEET, START, UPDATE, FINISH = "/init_weight_transfer_engine", "/start_weight_update", "/update_weights", "/finish_weight_update"


def at_each(servers: Sequence[TokenServer], work: Callable[[TokenServer], object]) -> dict[TokenServer, str]:
    """Side by side; the servers at which it failed, and why."""
    if not servers:
        return {}
    with ThreadPoolExecutor(len(servers)) as pool:
        begun = {server: pool.submit(work, server) for server in servers}
    return {server: str(error) for server, each in begun.items() if (error := each.exception()) is not None}


class AdapterTransfer:
    """Under a name of its own for each version, so that nothing that a server has cached can be taken for another version's; and for each
    session, since a version that is learned again after a kill may differ in its last bits."""

    def __init__(self, model: Callable[[], Any], folder: Path) -> None:
        """`model`: the peft module, as it is now."""
        self._model, self._folder = model, folder
        self._run = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
        self._session = secrets.token_hex(4)
        self._written = -1  # a killed session may have left another version under the same name

    def send(self, servers: Sequence[TokenServer], version: int) -> dict[TokenServer, str]:
        place = self._folder / f"adapter-{version}"
        if self._written != version:
            written_whole(place, self._model().save_pretrained)
            _drop_others(self._folder, "adapter-*", keep=place.name)
            self._written = version
        return at_each(servers, partial(self._load, place=place, version=version))

    def _load(self, server: TokenServer, place: Path, version: int) -> None:
        mine, name = f"bottega-{self._run}-", f"bottega-{self._run}-{self._session}-{version}"
        for old in [each for each in server.models() if each.startswith(mine)]:
            server.asked("POST", "/v1/unload_lora_adapter", {"lora_name": old}, missing=True)
        server.asked("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(place.resolve())})
        server.model = name


class ServedModel:
    """Servers of one model, whose name there is asked for whenever they are given weights: some may be away when a run begins, or come back with
    another name."""

    def __init__(self, transfer: WeightTransfer) -> None:
        self._transfer = transfer

    def send(self, servers: Sequence[TokenServer], version: int) -> dict[TokenServer, str]:
        failed = at_each(servers, self._name)
        able = [each for each in servers if each not in failed]
        return failed | (self._transfer.send(able, version) if able else {})

    @staticmethod
    def _name(server: TokenServer) -> None:
        server.model = next(iter(server.models()), "")


class DiskTransfer:
    """Whole weights: vLLM's `reload_weights`, or SGLang's route."""

    def __init__(self, weights: NamedWeights, dtype: torch.dtype, folder: Path) -> None:
        self._weights, self._dtype, self._folder = weights, dtype, folder
        self._written = -1

    def send(self, servers: Sequence[TokenServer], version: int) -> dict[TokenServer, str]:
        place = self._folder / f"weights-{version}"
        if self._written != version:
            written_whole(place, self._write)
            _drop_others(self._folder, "weights-*", keep=place.name)
            self._written = version
        return at_each(servers, partial(self._load, place=place))

    def _write(self, folder: Path) -> None:
        from safetensors.torch import save_file

        state = {name: value.contiguous().cpu().to(self._dtype, copy=True) for name, value in self._weights()}
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

    @staticmethod
    def _load(server: TokenServer, place: Path) -> None:
        path = str(place.resolve())
        body = {"method": "reload_weights", "kwargs": {"weights_path": path}}
        done = server.asked("POST", "/collective_rpc", body, missing=True) or server.asked(
            "POST", "/update_weights_from_disk", {"model_path": path}, missing=True
        )
        if not done or done.get("success") is False:
            raise BackboneError(f"{server.address} cannot load weights ({done or 'no route for it'}): {DEV_MODE}")
        server.asked("POST", "/reset_prefix_cache", missing=True)


DEV_MODE = "vLLM needs VLLM_SERVER_DEV_MODE=1 for it"


class IpcTransfer:
    """Servers on the trainer's own GPU read its memory; they need VLLM_ALLOW_INSECURE_SERIALIZATION=1."""

    def __init__(self, weights: NamedWeights, dtype: torch.dtype) -> None:
        self._weights, self._dtype = weights, dtype

    def send(self, servers: Sequence[TokenServer], version: int) -> dict[TokenServer, str]:
        failed = at_each(servers, begin_update)
        for chunk in chunks(self._weights(), self._dtype):
            body = self._shared(chunk)
            failed |= at_each([each for each in servers if each not in failed], partial(_post, path=UPDATE, body=body))
        torch.cuda.ipc_collect()
        return failed | at_each([each for each in servers if each not in failed], end_update)

    def _shared(self, chunk: Sequence[tuple[str, Tensor]]) -> dict[str, Any]:
        from torch.multiprocessing.reductions import reduce_tensor

        gpu = str(torch.cuda.get_device_properties(chunk[0][1].device).uuid)
        handles = [{gpu: reduce_tensor(value)[1]} for _, value in chunk]
        told = base64.b64encode(pickle.dumps(handles)).decode()
        return {"update_info": {**described(chunk, self._dtype), "ipc_handles_pickled": told}}


class NcclTransfer:
    """One broadcast to the workers of all servers; the group is made anew where servers have come or gone."""

    def __init__(
        self, weights: NamedWeights, dtype: torch.dtype, host: str = "", join: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:
        """`host`: this machine, as the servers reach it; none finds it out. `join`: makes the trainer's end of the group; vLLM's own where none
        is given."""
        self._weights, self._dtype, self._host, self._join = weights, dtype, host, join or _join_by_vllm
        self._members: list[TokenServer] = []
        self._group: Any = None
        self._listed: dict[str, Any] = {}
        self._proved = False
        """Whether the group has carried an update: until then a server may refuse one."""

    def send(self, servers: Sequence[TokenServer], version: int) -> dict[TokenServer, str]:
        failed = at_each(servers, begin_update)
        able = [each for each in servers if each not in failed]
        while able and able != self._members:
            failed |= self._meet(able)
            able = [each for each in able if each not in failed]
        if not able:
            return failed
        self._listed = self._listed or {"update_info": described(self._weights(), self._dtype)}
        with asked_of(able, partial(_post, path=UPDATE, body=self._listed)) as asked:
            refused = {} if self._proved else refusals(asked, "take part in a broadcast")
            if not refused:
                refused = self._broadcast(asked)
        lost = refused or errors_of(asked)
        self._proved, self._members = not lost, [] if lost else able
        return failed | lost | at_each([each for each in able if each not in lost], end_update)

    def _broadcast(self, asked: Asked) -> dict[TokenServer, str]:
        """Those who have to be started anew, since one of them was lost in the middle."""
        waiting: set[Future[None]] = set()
        with given_up_if_lost(asked, self._group.destroy) as given_up:
            try:
                for _, value in self._weights():
                    self._group.broadcast(value.to(self._dtype).contiguous(), src=0, stream=_stream())
                wait(asked.values(), return_when=FIRST_EXCEPTION)
                waiting = wait(asked.values(), timeout=REST_SECONDS).not_done
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
            except Exception:
                if not given_up.is_set():
                    raise
        return in_vain(asked, "was lost in a broadcast") if given_up.is_set() or waiting else {}

    def _meet(self, servers: list[TokenServer]) -> dict[TokenServer, str]:
        """Servers that join first wait for the trainer, and the other way round: so all are asked at once."""
        sizes: dict[TokenServer, int] = {}
        failed = at_each(
            servers, lambda server: sizes.update({server: int(server.asked("GET", "/get_world_size")["world_size"])})
        )
        if failed:
            return failed
        place: dict[str, Any] = {
            "master_address": self._host or address_towards(servers),
            "master_port": free_port(),
            "world_size": 1 + sum(sizes.values()),
        }
        offsets = {server: 1 + sum(sizes[each] for each in servers[:number]) for number, server in enumerate(servers)}

        def meet(server: TokenServer) -> None:
            _post(server, MEET, {"init_info": {**place, "rank_offset": offsets[server]}})

        self._proved = False
        with asked_of(servers, meet) as asked:
            failed = refusals(asked, "meet the trainer")
            if not failed:
                self._group = self._join(place)
        failed = failed or errors_of(asked)
        self._members = [] if failed else servers
        return failed


Asked = dict["TokenServer", "Future[None]"]


@contextmanager
def asked_of(servers: Sequence[TokenServer], work: Callable[[TokenServer], None]) -> Iterator[Asked]:
    """Calls that servers answer only once the trainer has done its part, which is the body; they are waited for unless one has refused."""
    pool = ThreadPoolExecutor(len(servers))
    asked = {server: pool.submit(work, server) for server in servers}
    try:
        yield asked
    except BaseException:
        pool.shutdown(wait=False)
        raise
    pool.shutdown(wait=not any(each.done() and each.exception() for each in asked.values()))


def refusals(asked: Asked, what: str) -> dict[TokenServer, str]:
    """Servers that will not do their part, and those that wait for them in vain; none if all seem to."""
    wait(asked.values(), timeout=EARLY_SECONDS, return_when=FIRST_EXCEPTION)
    return in_vain(asked, f"refused to {what}")


def in_vain(asked: Asked, what: str) -> dict[TokenServer, str]:
    """By server: its own error, or the first other's where one has failed; nothing where none has so far."""
    failed = {server: str(each.exception()) for server, each in asked.items() if each.done() and each.exception()}
    first = next((server.address for server in failed), None)
    told = f"waits in vain, since {first} {what}: start it anew"
    return {server: failed.get(server, told) for server in asked} if first else {}


@contextmanager
def given_up_if_lost(asked: Asked, give_up: Callable[[], None]) -> Iterator[threading.Event]:
    """Where one server has failed and the body is not over soon after, from another thread, since the body waits. Says whether it was."""
    over, given_up = threading.Event(), threading.Event()

    def watch() -> None:
        wait(asked.values(), return_when=FIRST_EXCEPTION)
        if any(each.done() and each.exception() for each in asked.values()) and not over.wait(REST_SECONDS):
            given_up.set()
            give_up()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield given_up
    finally:
        over.set()
    if given_up.is_set():
        watching.join()


def errors_of(asked: Asked) -> dict[TokenServer, str]:
    return {server: str(error) for server, each in asked.items() if (error := each.exception()) is not None}


def address_towards(servers: Sequence[TokenServer]) -> str:
    """This machine as those reach it: the address of ours that the way to them begins with. The name of this machine would not do, it often
    stands for 127.0.1.1."""
    own = []
    for server in servers:
        place = urlsplit(server.address)
        family, kind, _, _, target = socket.getaddrinfo(place.hostname, place.port or 80, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as way:
            way.connect(target)  # nothing is sent
            own.append(str(way.getsockname()[0]))
    return next((each for each in own if not ip_address(each).is_loopback), own[0])


def _join_by_vllm(place: dict[str, Any]) -> Any:
    from vllm.distributed.weight_transfer.nccl_common import trainer_init

    return trainer_init(place)


def _stream() -> Any:
    return torch.cuda.current_stream() if torch.cuda.is_available() else None


def _post(server: TokenServer, path: str, body: Any = None) -> None:
    server.asked("POST", path, body)


def begin_update(server: TokenServer) -> None:
    """An update that a killed trainer left open is closed first: vLLM refuses a second one."""
    server.asked("POST", "/pause", query={"mode": "keep"})
    try:
        server.asked("POST", START)
    except BackboneError as refused:
        try:
            server.asked("POST", FINISH)
        except BackboneError:  # there was none
            raise refused from None
        server.asked("POST", START)


def end_update(server: TokenServer) -> None:
    server.asked("POST", FINISH)
    server.asked("POST", "/reset_prefix_cache", missing=True)
    server.asked("POST", "/resume")


def described(weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> dict[str, list[Any]]:
    """What a server must know before tensors come."""
    shapes = [(name, list(value.shape)) for name, value in weights]
    kind = str(dtype).removeprefix("torch.")
    return {
        "names": [name for name, _ in shapes],
        "dtype_names": [kind] * len(shapes),
        "shapes": [shape for _, shape in shapes],
    }


def chunks(weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> Iterator[list[tuple[str, Tensor]]]:
    """Copies in the dtype that is sent, so many that they fit the chunk; at least one. Never the parameters' own memory: what was shared once
    with another process has its references counted from then on, once more for every time."""
    held: list[tuple[str, Tensor]] = []
    size = 0
    for name, value in weights:
        copied = value.to(dtype, copy=True, memory_format=torch.contiguous_format)
        if held and size + copied.nbytes > CHUNK_BYTES:
            yield held
            held, size = [], 0
        held.append((name, copied))
        size += copied.nbytes
    if held:
        yield held


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def _drop_others(folder: Path, pattern: str, keep: str) -> None:
    for path in folder.glob(pattern):
        if path.name != keep:
            shutil.rmtree(path, ignore_errors=True)
