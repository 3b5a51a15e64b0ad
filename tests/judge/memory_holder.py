"""A process of its own that claims memory of a pretended GPU, and does with the claim what it is told."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

HOLDER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from judge.pretend_gpu import PretendGpu
from bottega.judge.memory_ledger import MemoryLedger
ledger = MemoryLedger("cuda:0", PretendGpu(Path(sys.argv[2])))
print("asking", flush=True)
options = {name: True for name in sys.argv[4:]}
with ledger.claim(int(float(sys.argv[3]) * (1 << 30)), f"holder of {sys.argv[3]}", **options) as claim:
    print("held", flush=True)
    for line in sys.stdin:
        word, _, size = line.strip().partition(" ")
        if not word:
            break
        print(getattr(claim, word)(int(float(size) * (1 << 30))), flush=True)
print("released", flush=True)
sys.stdin.readline()
"""


class Holder:
    def __init__(self, folder: Path, size: float, *options: str):
        tests = Path(__file__).parent.parent
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tests), str(folder / "gpu.json"), str(size), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(folder)},
            bufsize=0,
        )
        assert self.said(60) == "asking"

    def said(self, seconds: float) -> str:
        """The next thing it says, or nothing when it says nothing for that long."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return ""
        return self.process.stdout.readline().decode().strip()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def release(self) -> None:
        self.tell("")
        assert self.said(60) == "released"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
