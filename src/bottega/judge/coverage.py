"""Coverage: the share of a candidate's time that is spent in its own kernels. Pure functions over counts.

On a CPU the counts come from the kernel's own sampling of the process, by the file each sample lies in: the candidate
cannot write them. On a GPU they come from the profiler inside the candidate's process, by kernel name, and are checked
against the controller's clock. What belongs to neither (the C library, the OpenMP runtime, the interpreter) counts
for neither.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from bottega.core.candidate import SOURCE_LIMIT
from bottega.core.foreign_text import one_line
from bottega.languages import language_named

DECOY_BELOW = 0.005
FEWEST_SAMPLES = 40
UNLIKE, CHANCE = 0.1, 1e-4
"""By how much the share of timed calls may be below that of others for an honest reason, and how unlikely what goes beyond it must be."""
OTHER_CALLS, OTHER_CALLS_NS = 1.5, 100_000.0
SMALL_SHARE = 0.05
SAMPLES_FOR_A_DECOY = 300
"""Fewer could miss an honest kernel that does a few per cent of the work."""
LARGEST_OWN_CODE = 4 << 20
LAUNCH_FLOOR_US = 1.5
"""What an empty kernel takes: time that shows no work."""

_LIBRARY_FILE = re.compile(r"site-packages|dist-packages|\.so\b", re.IGNORECASE)
"""Whatever is installed: a system has libraries of linear algebra and transforms of its own, by many names."""
_NEUTRAL_FILE = re.compile(
    r"lib(c|m|mvec|gomp|omp|iomp5|pthread|stdc\+\+|gcc_s|atomic|ffi|dl|rt|ld)[-.]|/ld-|\[vdso\]|\[vsyscall\]|libpython|lib-dynload/|/bin/|"
    r"\[heap\]|\[stack"
)
_COMPILED_BY_TORCH = re.compile(r"torchinductor|inductor_cache|torch_compile")
_LIBRARY_KERNEL = re.compile(
    r"at::|c10::|at_cuda|cub::|thrust::|cutlass|cublas|cudnn|cudnn_|nvjet|xmma|cask|nchwToNhwc|nhwcToNchw|implicit_convolve|winograd|"
    r"^(void )?(sm\d+|ampere|volta|turing|hopper|maxwell|blackwell)_|gemmSN|gemv2|splitK|dot_kernel|reduce_1Block|fft|flash_fwd|fmha|"
    r"triton_(poi|per|red|tem|mm|for|split)_|Memcpy|Memset|memcpy|memset|ncclKernel|nccl"
)
_PRODUCT = re.compile(r"gemm|gemv|cutlass|cublas|nvjet|xmma|splitK|dot_kernel|conv|winograd|cudnn|flash|fmha", re.IGNORECASE)
"""Library kernels of matrix products, convolutions and attention: where a library is best, using it is right."""
PRODUCTS = frozenset(
    (
        *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linear", "matmul", "mkldnn_linear"),
        *("_grouped_mm", "_int_mm", "_scaled_mm"),
        *("convolution", "_convolution", "convolution_overrideable", "mkldnn_convolution"),
        *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math"),
    )
)
"""The same on a CPU, by torch's operators. None that does anything beside the product, such as `_addmm_activation`."""
LITTLE_BESIDE = 0.25
"""Of the reference's time, most of it to begin an operator where tensors are small: where its products leave no more, own kernels may take too
little to be seen. Whoever forges which operators it uses leaves no more than this to the library unseen."""
MOST_LEFT_OVER = 0.25
"""Of the reference's time outside of such products: what a candidate may leave to the library there and still have replaced it."""
MOST_NAMES = 64
LONGEST_NAME = 120
LONGEST_KERNEL = 600
"""Characters of a kernel's full name, template arguments and all."""
MOST_ROWS = 4096
"""Kernels of a profile that are looked at; the worker ranks them, and no honest module has as many."""


@dataclass(frozen=True)
class Coverage:
    share: float | None
    """Between 0 and 1; None when it could not be measured."""
    method: str
    own: tuple[str, ...] = ()
    samples: int | None = None
    """How many samples the share rests on, where it was sampled."""
    hottest: tuple[tuple[str, float], ...] = ()
    """Names with their share of the time (CPU) or microseconds a call (GPU), largest first."""
    beside_products: bool = False
    """Own kernels do what the reference does beside its products, and the products are left to the library: little of the time, and no decoy."""
    own_samples: int | None = None
    """Those of the samples that lie in own kernels."""

    def to_json(self) -> dict[str, Any]:
        return {
            "share": self.share,
            "method": self.method,
            "own": list(self.own),
            "samples": self.samples,
            "hottest": [list(row) for row in self.hottest],
            "beside_products": self.beside_products,
        }

    @property
    def sure(self) -> bool:
        """Whether more samples would not change what is said: a small share must rest on many."""
        return self.share is not None and (
            self.share > SMALL_SHARE or self.samples is None or self.samples >= SAMPLES_FOR_A_DECOY
        )


def claimed_kernels(source: str, language: str) -> tuple[str, ...]:
    """Names of kernels that the text defines, whether or not they ever run."""
    names = islice(language_named(language).kernel_names(source[:SOURCE_LIMIT]), MOST_NAMES)
    return tuple(dict.fromkeys(name[:LONGEST_NAME] for name in names))


def cpu_coverage(samples: dict[str, Any], claimed: tuple[str, ...]) -> Coverage:
    if "unavailable" in samples:
        return Coverage(None, f"not measured: {samples['unavailable']}")
    own = library = 0
    by_name: dict[str, int] = {}
    sizes = dict(samples.get("code_bytes", {}))
    for path, count in dict(samples.get("by_file", {})).items():
        kind = file_kind(str(path), int(sizes.get(path, 0)))
        if kind == "own":
            own += count
        elif kind == "library":
            library += count
        label = "own kernels" if kind == "own" else one_line(str(path).rsplit("/", 1)[-1], LONGEST_NAME)
        by_name[label] = by_name.get(label, 0) + count
    total = sum(by_name.values())
    ranked = sorted(by_name.items(), key=lambda item: -item[1])[:6]
    hottest = tuple((name, round(count / total, 4)) for name, count in ranked) if total else ()
    if own + library < FEWEST_SAMPLES:
        why = f"not measured: only {own + library} samples"
        return Coverage(None, why, claimed, own + library, hottest, own_samples=own)
    share, seen = round(own / (own + library), 4), claimed if own else ()
    return Coverage(share, "samples taken by the operating system", seen, own + library, hottest, own_samples=own)


def in_timed_calls(coverage: Coverage, rounds: Coverage, sampled_ns: float, timed_ns: float) -> Coverage:
    """What may be said of timed calls. Those of the coverage stage follow one another, so that a kernel can know them. `rounds`: of those among the
    timed rounds that do not count. Where they do not tell, calls that take longer on a core when sampled are others."""
    if coverage.share is None:
        return coverage
    if rounds.own_samples is not None and rounds.samples:
        least = max(0.0, coverage.share - UNLIKE)
        if _at_most(rounds.own_samples, rounds.samples, least) < CHANCE:
            method = f"samples of timed rounds; calls that are only sampled have a share of {coverage.share:.2f}"
            share = round(rounds.own_samples / rounds.samples, 4)
            return replace(rounds, share=share, method=method, samples=None)  # few, and sure by the difference
        coverage = replace(coverage, method=f"{coverage.method}; {rounds.own_samples} of {rounds.samples} in timed rounds")
        if rounds.share is not None:
            return coverage
    if sampled_ns > OTHER_CALLS * timed_ns + OTHER_CALLS_NS:
        times = f"a call takes {sampled_ns / 1e6:.3g} ms while it is sampled and {timed_ns / 1e6:.3g} ms while it is timed"
        return replace(coverage, share=None, method=f"not measured: {times}")
    return coverage


def _at_most(found: int, samples: int, share: float) -> float:
    """How likely so few of the samples are, or fewer, at this share. By logarithms: a slow call has thousands of samples."""
    if not 0 < share < 1:
        return float(share <= 0 or found >= samples)
    ways = [math.lgamma(samples + 1) - math.lgamma(n + 1) - math.lgamma(samples - n + 1) for n in range(found + 1)]
    logs = (way + n * math.log(share) + (samples - n) * math.log1p(-share) for n, way in enumerate(ways))
    return min(1.0, math.fsum(map(math.exp, logs)))


def merge_samples(total: dict[str, Any], more: dict[str, Any]) -> None:
    """Add the counts of one sampling window to those before it."""
    if "unavailable" in more:
        total["unavailable"] = more["unavailable"]
    for path, count in dict(more.get("by_file", {})).items():
        total["by_file"][path] = total["by_file"].get(path, 0) + int(count)
    total.setdefault("code_bytes", {}).update(more.get("code_bytes", {}))


def file_kind(path: str, code_bytes: int = 0) -> str:
    """`own` for code built inside the sandbox, `library`, or `neutral`.

    Code generated in memory counts as a library's: oneDNN writes its kernels there. So does a file in the sandbox that
    holds more code than anyone compiles there: a copy of a library under another name.
    """
    if _COMPILED_BY_TORCH.search(path) or path.startswith(("[anon", "[unknown", "[other")):
        return "library"
    installed = path.startswith((f"{sys.prefix}/", f"{sys.base_prefix}/"))  # read-only in the sandbox, wherever it lies
    built_here = path.startswith(("/tmp/", "/memfd:", "/dev/shm/")) and not installed
    if built_here and code_bytes > LARGEST_OWN_CODE:
        return "library"
    if built_here:
        return "own"
    if _NEUTRAL_FILE.search(path):
        return "neutral"
    return "library" if _LIBRARY_FILE.search(path) else "neutral"


def gpu_coverage(kernels: Any, source: str, claimed: tuple[str, ...]) -> Coverage:
    """`kernels` are rows of name, microseconds a call, launches a call, as the profiler saw them; or whatever a hostile process sends."""
    own_us = total_us = 0.0
    own: dict[str, None] = {}
    words, rows = _words(source), _rows(kernels)
    for name, microseconds, launches in rows:
        if re.match(r"Mem(cpy|set)", name):
            continue
        total_us += float(microseconds)
        if kernel_is_own(name, words):
            own_us += max(0.0, float(microseconds) - LAUNCH_FLOOR_US * float(launches))
            own[base_name(name)] = None
    hottest = tuple((base_name(name), round(float(us), 2)) for name, us, _ in rows[:6])
    if total_us <= 0:
        return Coverage(None, "not measured: the profiler saw no kernel", claimed, None, hottest)
    share = round(min(1.0, own_us / total_us), 4)
    return Coverage(share, "profiler, by kernel name", tuple(islice(own, MOST_NAMES)), None, hottest)


def works_beside_products(kernels: Any, source: str, reference: Any) -> bool:
    """Whether own kernels have replaced what the reference, by its own profile, does beside its products."""
    words = _words(source)
    beside = [(name, us) for name, us, _ in _rows(kernels) if not _PRODUCT.search(name)]
    left_over = sum(us for name, us in beside if not kernel_is_own(name, words))
    replaced = sum(us for name, us, _ in _rows(reference) if not _PRODUCT.search(name))
    return any(kernel_is_own(name, words) for name, _ in beside) and left_over < MOST_LEFT_OVER * replaced


def leaves_products_only(operators: Any, reference: Any) -> bool:
    """On a CPU: whether a candidate leaves hardly anything but products to the library, of a reference that does little beside them. Then what its
    outputs need beside them is the work of its own code. Rows are those of `library_operators`."""
    mine, theirs = _rows(operators), _rows(reference)
    replaced = sum(us for name, us, _ in theirs if name not in PRODUCTS)
    left_over = sum(us for name, us, _ in mine if name not in PRODUCTS)
    little = 0 < replaced < LITTLE_BESIDE * sum(us for _, us, _ in theirs)
    return little and any(name in PRODUCTS for name, _, _ in mine) and left_over < MOST_LEFT_OVER * replaced


def _words(source: str) -> set[str]:
    return set(re.findall(r"\w+", source[:SOURCE_LIMIT]))


def _rows(kernels: Any) -> list[tuple[str, float, float]]:
    rows = filter(_is_profile_row, kernels[:MOST_ROWS] if isinstance(kernels, list) else [])
    return [(str(name)[:LONGEST_KERNEL], float(us), float(launches)) for name, us, launches in rows]


def _is_profile_row(row: Any) -> bool:
    """A profile comes out of the candidate's process: only rows that make sense are looked at."""
    if not isinstance(row, list | tuple) or len(row) != 3 or not isinstance(row[0], str):
        return False
    return all(isinstance(value, int | float) and 0 <= value < 1e12 for value in row[1:])


def kernel_is_own(name: str, words: set[str]) -> bool:
    """A kernel is the candidate's when its name stands in the candidate's text and is not a library's."""
    return not _LIBRARY_KERNEL.search(name) and base_name(name) in words


def base_name(name: str) -> str:
    """`void scale<float>(float*, int)` becomes `scale`; a Triton name stays as it is."""
    text = re.sub(r"^(void|static|__global__)\s+", "", name)
    text = re.split(r"[<(]", text, maxsplit=1)[0].strip()
    return one_line(text.rsplit("::", 1)[-1].rsplit(" ", 1)[-1], LONGEST_NAME)
