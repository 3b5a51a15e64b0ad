"""`make release`: sdist and wheel from a clean export of the commit, tried in clean environments, with a bill of materials.

Every step ends the run where it fails. Environments of the extras lie over the one with the wheel alone, so that torch is installed once; none of
them sees the developer's own packages.

    python tools/release.py --out dist [--extras service,server]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("build", "twine", "cyclonedx-bom", "setuptools")
IMPORTS = {
    "cuda": ("ninja",),  # cuda.core needs the bindings that torch for GPUs brings along
    "triton": ("triton",),
    "datasets": ("datasets", "bottega.tasks.dataset"),
    "local": ("transformers", "peft", "safetensors", "bottega.backbone.local"),
    "server": ("openai", "bottega.backbone.server"),
    "service": ("fastapi", "uvicorn", "httpx", "bottega.service.server", "bottega.service.mcp.server", "bottega.judge.remote"),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "bench": ("bm25s", "rank_bm25"),
    "cluster": ("ray", "bottega.cluster.judges"),
    "browser": ("playwright",),
    "docs": ("mkdocs", "mkdocstrings"),
    "dev": ("pytest", "ruff", "mypy"),
}
"""What must be importable with each extra. Not tried: vllm, whose wheels want a GPU's machine."""
NEEDED = (
    "backbone/shipped/bottega.difference",
    "skills/shipped/",
    "agents/prompt_templates/full/write.md",
    "app/demo/cheat.py",
    "py.typed",
)
"""Of the package, beside its code: without them it installs and does not work."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=ROOT / "dist")
    options.add_argument("--extras", default=",".join(IMPORTS), help="extras to try, by comma; empty for none")
    options.add_argument("--no-demo", action="store_true", help="leave out the two verdicts of `bottega demo`")
    given = options.parse_args()
    extras = [name for name in given.extras.split(",") if name]
    if unknown := set(extras) - set(IMPORTS):
        sys.exit(f"unknown extras: {', '.join(sorted(unknown))}; there are {', '.join(IMPORTS)}")
    work = ROOT / "build" / "release"
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    version = checked_version()
    tools = environment(work / "tools", with_pip=True)
    install(tools, tools, *TOOLS)
    sdist, wheel = built(tools, work, given.out)
    check_contents(tools, work, sdist, wheel)
    run(tools, "-m", "twine", "check", "--strict", sdist, wheel)
    base = environment(work / "base")
    install(tools, base, wheel)
    if (told := output(base, "-m", "bottega.app.cli", "version")).split(",")[0] != f"bottega {version}":
        sys.exit(f"the installed wheel says {told!r}, not {version}")
    if not given.no_demo:
        run(base, "-m", "bottega.app.cli", "demo")
    bill_of_materials(tools, base, given.out / f"bottega-{version}.cdx.json")
    for extra in extras:
        layered = environment(work / extra, over=base)
        install(tools, layered, f"bottega[{extra}]")
        run(layered, "-c", f"import {', '.join(IMPORTS[extra])}")
        bill_of_materials(tools, layered, given.out / f"bottega-{version}+{extra}.cdx.json")
    licences(given.out)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(given.out.iterdir())]
    (given.out / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    say(f"released into {given.out}: {version} with {', '.join(extras) or 'no extras'}")


def checked_version() -> str:
    text = (ROOT / "src/bottega/__init__.py").read_text()
    version = re.search(r'^__version__ = "([^"]+)"', text, re.M)
    assert version is not None
    changes = (ROOT / "CHANGELOG.md").read_text()
    if not re.search(rf"^## {re.escape(version[1])}, \d{{4}}-\d\d-\d\d$", changes, re.M):
        sys.exit(f"CHANGELOG.md has no section `## {version[1]}, DATE`")
    unreleased = re.search(r"^## Unreleased\n+- ", changes, re.M)
    if unreleased:
        say("CHANGELOG.md has unreleased entries: what is built is a candidate. Give them a version before you publish")
    return version[1]


def built(tools: Path, work: Path, out: Path) -> tuple[Path, Path]:
    """From the files that git has, as they lie there: nothing that happens to be in the folder gets in."""
    source = work / "source"
    source.mkdir(parents=True)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    run(tools, "-m", "build", "--no-isolation", "--outdir", out, source)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def check_contents(tools: Path, work: Path, sdist: Path, wheel: Path) -> None:
    """What must be inside is, in both; and the sdist makes the same wheel."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        packed = archive.getnames()
    for needed in NEEDED:
        for kind, names in (("wheel", inside), ("sdist", packed)):
            if not any(f"bottega/{needed}" in name for name in names):
                sys.exit(f"the {kind} lacks bottega/{needed}")
    if not any(name.endswith("licenses/LICENSE") for name in inside):
        sys.exit("the wheel lacks the licence")
    again = work / "again"
    run(tools, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", again, sdist)
    (remade,) = again.glob("*.whl")
    if differing := inside ^ set(zipfile.ZipFile(remade).namelist()):
        sys.exit(f"the sdist makes another wheel: {', '.join(sorted(differing)[:5])}")


def bill_of_materials(tools: Path, python: Path, out: Path) -> None:
    run(
        tools,
        "-m",
        "cyclonedx_py",
        "environment",
        "--output-format",
        "JSON",
        "--output-reproducible",
        "--output-file",
        out,
        python,
    )


def licences(out: Path) -> None:
    """One line for each package of any environment, from the bills of materials."""
    found: dict[str, str] = {}
    for path in out.glob("*.cdx.json"):
        for part in json.loads(path.read_text())["components"]:
            told = [
                row.get("expression") or row["license"].get("id") or row["license"].get("name", "")
                for row in part.get("licenses", ())
            ]
            short = [" ".join(text.split())[:80] for text in told if text]
            found[f"{part['name']} {part.get('version', '')}"] = " / ".join(dict.fromkeys(short)) or "not stated"
    (out / "LICENCES.txt").write_text("".join(f"{name}: {licence}\n" for name, licence in sorted(found.items(), key=str)))
    unstated = [name for name, licence in found.items() if licence == "not stated"]
    say(f"{len(found)} packages, licence not stated: {', '.join(unstated) or 'none'}")


def environment(folder: Path, over: Path | None = None, with_pip: bool = False) -> Path:
    """Its Python. `over`: the Python of another one, whose packages it sees too. Without pip, which is no part of what is released."""
    venv.create(folder, with_pip=with_pip)
    python = folder / "bin" / "python"
    if over is not None:
        (own,) = folder.glob("lib/python*/site-packages")
        (below,) = over.parent.parent.glob("lib/python*/site-packages")
        (own / "below.pth").write_text(f"{below}\n")
    return python


def install(tools: Path, python: Path, *wanted: object) -> None:
    constraints = ROOT / "constraints.txt"
    run(tools, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", "--constraint", constraints, *wanted)


def run(python: Path, *words: object) -> None:
    say(f"{python.parent.parent.name}: {' '.join(str(word) for word in words)[:150]}")
    ended = subprocess.run([python, *map(str, words)], cwd=ROOT / "build", check=False)
    if ended.returncode:
        sys.exit(f"ended with exit code {ended.returncode}")


def output(python: Path, *words: str) -> str:
    return subprocess.run([python, *words], cwd=ROOT / "build", capture_output=True, text=True, check=True).stdout.strip()


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
