"""What the tests run inside a sandbox: each entry tries something and writes what happened, as JSON, to the first descriptor it got.

Here are those that look around, overstep, live on and end; honest work is in `working_entries`.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial


def say(fds: list[int], **facts: object) -> None:
    os.write(fds[0], json.dumps(facts).encode() + b"\n")


def attempt(action) -> str:
    """'' when it worked, else the name of the error."""
    try:
        action()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""


def first_byte(path: str) -> None:
    with open(path, "rb") as file:
        if not file.read(1):
            raise EOFError(path)


def syscall(number: int, *arguments: int) -> int:
    """The error number of a raw system call; 0 when it worked."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) for a in arguments))
    return ctypes.get_errno() if result == -1 else 0


# -- what it sees


def describe(fds, arguments):
    with open("/proc/self/environ", "rb") as file:
        environ = file.read().decode()
    status = {}
    with open("/proc/self/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            status[name] = value.strip()
    say(
        fds,
        pid=os.getpid(),
        parent=os.getppid(),
        uid=os.getuid(),
        groups=os.getgroups(),
        cwd=os.getcwd(),
        environ=environ,
        environment=dict(os.environ),
        root=sorted(os.listdir("/")),
        descriptors=sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
        passed=fds,
        capabilities=[status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")],
        no_new_privileges=status["NoNewPrivs"],
        seccomp=status["Seccomp"],
        threads=status["Threads"],
        processes=sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        core=resource.getrlimit(resource.RLIMIT_CORE),
        arguments=arguments,
    )


def random_numbers(fds, arguments):
    import random

    import numpy

    say(fds, numbers=[random.random(), float(numpy.random.rand())])


def read_and_write(fds, arguments):
    def read(path: str) -> None:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            first_byte(path)

    def write(path: str) -> None:
        with open(os.path.join(path, "intruder"), "w") as file:
            file.write("x")

    results = {path: attempt(partial(read, path)) for path in arguments.get("read", [])}
    results |= {"write " + path: attempt(partial(write, path)) for path in arguments.get("write", [])}
    say(fds, **results)


# -- reaching out


def reach_network(fds, arguments):
    def connect():
        socket.create_connection((arguments["host"], arguments["port"]), timeout=2)

    say(
        fds,
        connect=attempt(connect),
        udp=attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
        inet6=attempt(lambda: socket.socket(socket.AF_INET6)),
        netlink=attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
        local=attempt(socket.socketpair),
        host_socket=attempt(lambda: socket.socket(socket.AF_UNIX).connect("\0" + arguments["abstract"])),
    )


def attack_processes(fds, arguments):
    outcomes = {}
    for name in ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGSEGV"):
        for pid in {1, os.getppid(), *arguments.get("pids", [])}:
            outcomes[f"{name} {pid}"] = attempt(lambda pid=pid, name=name: os.kill(pid, getattr(signal, name)))
    outcomes["everyone"] = attempt(lambda: os.kill(-1, signal.SIGTERM))
    outcomes["memory"] = attempt(lambda: first_byte("/proc/1/mem"))
    outcomes["maps"] = attempt(lambda: first_byte("/proc/1/maps"))
    outcomes["descriptors"] = attempt(lambda: os.listdir("/proc/1/fd"))
    outcomes["environ"] = attempt(lambda: first_byte("/proc/1/environ"))
    outcomes["root"] = attempt(lambda: os.listdir("/proc/1/root"))
    outcomes["prlimit"] = attempt(lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)))
    say(fds, alive=True, **outcomes)


def reach_processes(fds, arguments):
    """Signal 0 asks whether a signal would be allowed, and harms nobody where it is."""
    say(fds, **{str(pid): attempt(lambda pid=pid: os.kill(pid, 0)) for pid in arguments["pids"]})


def call_denied(fds, arguments):
    say(fds, **{name: syscall(number, *arguments["arguments"].get(name, [])) for name, number in arguments["calls"].items()})


def thaw_itself(fds, arguments):
    import fcntl

    reader, _ = os.pipe()
    say(
        fds,
        timer=syscall(arguments["timer_create"], 0, 0, 0),
        signal_number=attempt(lambda: fcntl.fcntl(reader, 10, signal.SIGCONT)),
        folder=attempt(lambda: fcntl.fcntl(os.open("/", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_MODIFY)),
        locks=attempt(lambda: fcntl.lockf(reader, fcntl.LOCK_EX)),  # of a pipe that cannot be written: it was not even tried
        exit_signals=[syscall(arguments["clone"], number, 0, 0, 0, 0) for number in (signal.SIGCONT, signal.SIGTERM, 64)],
        death_signal=syscall(arguments["prctl"], 1, signal.SIGCONT),
        filter=syscall(arguments["prctl"], 22, 2, 0),
        terminal=syscall({"x86_64": 16, "aarch64": 29}[platform.machine()], 0, 0x540E, 0),
    )


def list_folder(fds, arguments):
    found = os.listdir(arguments["folder"]) if os.path.isdir(arguments["folder"]) else []
    say(fds, found=found)


def leave_the_group(fds, arguments):
    libc = ctypes.CDLL(None)
    before = os.getpgid(0), os.getsid(0)
    os.setsid()
    os.setpgid(0, 0)
    libc.prctl(4, 0)
    child = subprocess.run(
        ["echo", "fine"], start_new_session=True, process_group=0, capture_output=True, text=True, check=True
    )
    after = os.getpgid(0), os.getsid(0)
    groups, sessions = zip(before, after)
    say(fds, groups=groups, sessions=sessions, readable=libc.prctl(3), subprocess=child.stdout.strip())


def send_descriptors(fds, arguments):
    one, two = socket.socketpair()
    say(fds, error=attempt(lambda: socket.send_fds(one, [b"x"], [fds[0]])), received=two.fileno())


def answer_what_is_open(fds, arguments):
    """What a fork that answers may do, and sees of the process that forked it."""
    from bottega.sandbox.channel import Channel
    from bottega.sandbox.forked_answers import answer_in_forks

    def answer(asked):
        libc, one = ctypes.CDLL(None), socket.socketpair()[0]
        parent = os.getppid()
        libc.prctl(4, 0)
        return {
            "descriptors": attempt(lambda: socket.send_fds(one, [b"x"], [one.fileno()])),
            "alarm": attempt(lambda: signal.setitimer(signal.ITIMER_REAL, 100.0)),
            "hides": libc.prctl(3),
            "own": attempt(lambda: os.listdir("/proc/self/fd")),
            "parents_memory": attempt(lambda: open(f"/proc/{parent}/mem", "rb")),
            "parents_descriptors": attempt(lambda: os.listdir(f"/proc/{parent}/fd")),
        }

    answer_in_forks(Channel.from_descriptor(fds[0], takes_descriptors=False), answer)


# -- using too much


def fork_bomb(fds, arguments):
    made = 0
    try:
        while made < 20000:
            if os.fork() == 0:
                while True:
                    time.sleep(60)
            made += 1
    except OSError:
        pass
    say(fds, made=made)
    time.sleep(arguments.get("linger", 0))


def exponential_bomb(fds, arguments):
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)


def hog_memory(fds, arguments):
    say(fds, pid=os.getpid())
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20)) * 8)


def hog_with_children(fds, arguments):
    for _ in range(arguments["children"]):
        if os.fork() == 0:
            held = [bytearray(b"x") * arguments["each"]]
            while held:
                time.sleep(60)
    time.sleep(60)


def hog_memory_files(fds, arguments):
    chunk = b"x" * (1 << 20)
    files = []
    while True:
        files.append(os.memfd_create("hog"))
        for _ in range(64):
            os.write(files[-1], chunk)


def hog_shared_mapping(fds, arguments):
    held = []
    while True:
        held.append(mmap.mmap(-1, 64 << 20))
        held[-1].write(b"x" * (64 << 20))


def hog_page_tables(fds, arguments):
    """Zeros that are only read take no memory but for the tables that map them."""
    for _ in range(60):
        if os.fork() == 0:
            held = mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
            for offset in range(0, 4 << 30, 2 << 20):
                held[offset]
            time.sleep(60)
    time.sleep(60)


def hog_mappings(fds, arguments):
    """Sixty thousand mappings of nothing, which every fork lists again."""
    libc = ctypes.CDLL(None)
    held = mmap.mmap(-1, 60_000 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
    start = ctypes.addressof(ctypes.c_char.from_buffer(held))
    for page in range(0, 60_000, 2):
        libc.mprotect(ctypes.c_void_p(start + page * 4096), ctypes.c_size_t(4096), 0)
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(60)
    time.sleep(60)


def hog_pipes(fds, arguments):
    for _ in range(3):
        if os.fork() == 0:
            attempt(_fill_pipes)
            time.sleep(60)
    time.sleep(60)


def _fill_pipes() -> None:
    while True:
        _, writer = os.pipe()
        os.set_blocking(writer, False)
        attempt(lambda writer=writer: os.write(writer, b"x" * (64 << 10)))


def hog_socket_pairs(fds, arguments):
    held = []

    def fill() -> None:
        while True:
            held.append(socket.socketpair())
            held[-1][0].setblocking(False)
            attempt(lambda: held[-1][0].send(b"x" * (150 << 10)))

    attempt(fill)
    time.sleep(60)


def hog_waiting_connections(fds, arguments):
    """Data that was sent to a listener by sockets that are closed again: nobody holds a descriptor of it."""
    for number in range(8):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0waiting{number}")
        listener.listen(4096)
        for _ in range(1000):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            if attempt(lambda client=client, number=number: client.connect(f"\0waiting{number}")):
                break
            attempt(lambda client=client: client.send(b"x" * (150 << 10)))
            client.close()
        say(fds, listening=listener.fileno())
        listener.detach()
    time.sleep(60)


def hog_descriptors(fds, arguments):
    for _ in range(12):
        if os.fork() == 0:
            attempt(lambda: [os.open("/dev/null", 0) for _ in range(100000)])
            time.sleep(60)
    time.sleep(60)


def use_lent_memory(fds, arguments):
    lent = mmap.mmap(fds[1], arguments["bytes"])
    total = sum(lent[offset] for offset in range(0, arguments["bytes"], 4096))
    time.sleep(0.5)
    say(fds, total=total)


def fill(fds, arguments):
    written = 0
    chunk = b"x" * (1 << 20)

    def write() -> None:
        nonlocal written
        for index in range(4):
            with open(f"{arguments['folder']}/fill{index}", "wb", buffering=0) as file:
                while True:
                    written += file.write(chunk)

    say(fds, error=attempt(write), written=written)


def large_file(fds, arguments):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    say(fds, error=attempt(lambda: os.truncate(os.open("/tmp/large", os.O_CREAT | os.O_RDWR), arguments["bytes"])))


def open_many(fds, arguments):
    held = []
    error = attempt(lambda: [held.append(os.open("/dev/null", 0)) for _ in range(100000)])
    count = len(held)
    for descriptor in held:
        os.close(descriptor)
    say(fds, count=count, error=error)


# -- living on


def leave_daemon(fds, arguments):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                os.write(fds[0], b"tick\n")
                time.sleep(0.01)
        os._exit(0)
    time.sleep(arguments.get("linger", 0.2))


def ignore_everything(fds, arguments):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    say(fds, pid=os.getpid())
    while True:
        time.sleep(60)


def close_everything(fds, arguments):
    os.closerange(0, 4096)
    while True:
        time.sleep(60)


def flood(fds, arguments):
    line = b"x" * 65535 + b"\n"
    for _ in range(arguments["bytes"] >> 16):
        os.write(1, line)
    os.write(2, b"the very end")


def count(fds, arguments):
    number = 0
    while True:
        number += 1
        os.write(fds[0], number.to_bytes(8, "little"))
        time.sleep(0.0005)


def count_in_threads(fds, arguments):
    shared = mmap.mmap(fds[1], 4096)

    def run(slot: int) -> None:
        while True:
            shared[slot] = (shared[slot] + 1) % 256
            time.sleep(0.0001)

    for slot in range(4):
        threading.Thread(target=run, args=(slot,), daemon=True).start()
    if os.fork() == 0:
        os.setsid()
        run(4)
    run(5)


def sleep(fds, arguments):
    say(fds, pid=os.getpid())
    time.sleep(arguments.get("seconds", 60))


def hold_memory(fds, arguments):
    held = b"\1" * arguments["bytes"]
    say(fds, bytes=len(held))
    time.sleep(60)


def spin(fds, arguments):
    say(fds, pid=os.getpid())
    while True:
        pass


# -- ending


def fail(fds, arguments):
    raise ValueError("as the test wanted")


def leave(fds, arguments):
    sys.exit(arguments["code"])


def crash(fds, arguments):
    ctypes.string_at(0)


def import_late(fds, arguments):
    import colorsys

    say(fds, module=colorsys.__name__)
