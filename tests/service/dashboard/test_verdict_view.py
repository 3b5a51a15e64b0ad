"""A verdict's page: the profile that it asked for as bottleneck, roofline plot and launches, and markup in it as text."""

from __future__ import annotations

from typing import Any

from made_runs import HOSTILE, verdict

from bottega.service.dashboard.verdict_view import roofline_plot, verdict_html

LAUNCH: dict[str, Any] = {
    "name": "rows_kernel", "us": 41.5, "launches": 1.0, "grid": [4096, 1, 1], "block": [128, 1, 1], "registers": 40,
    "shared_bytes": 16384, "local_bytes": 0, "occupancy": 0.75, "limited_by": "registers",
}  # fmt: skip
RATES = {"gbs": 2400.0, "peak_gbs": 4000.0, "gflops": 1200.0, "peak_gflops": 60000.0}


def page(profile: dict[str, Any]) -> str:
    return str(verdict_html({**verdict().to_json(), "profile": profile}))


def test_a_profile_of_a_gpu_has_its_launches_and_a_roofline() -> None:
    text = page({**RATES, "kernels": [LAUNCH], "gaps_us": 3.5, "bottleneck": "Few blocks: 12 of 132 SMs are busy."})
    for words in (
        "Few blocks",
        "2400 of 4000 GB/s",
        "rows_kernel",
        "4096×1×1",
        "75%, by registers",
        "16,384 B",
        "3.5 µs a call",
    ):
        assert words in text, words
    assert "this kernel" in text and "FLOP/byte" in text


def test_a_profile_of_a_cpu_has_cores_and_vectors() -> None:
    text = page(
        {"gbs": 11.0, "peak_gbs": 20.0, "threads": 1.9, "cores": 2, "vector_bits": 256, "bottleneck": "Bound by memory."}
    )
    assert "1.9 of 2" in text and "256 bits" in text and "FLOP/byte" not in text, "without operations there is no roofline"


def test_without_a_profile_there_is_no_section_and_a_strange_one_is_borne() -> None:
    assert "Profile" not in page({})
    text = page({"bottleneck": HOSTILE, "kernels": [{"name": HOSTILE, "us": "x", "grid": "y"}, 7], "gflops": HOSTILE})
    assert "<script>" not in text and "<img" not in text


def test_the_kernel_lies_under_the_roof_on_logarithmic_axes() -> None:
    drawn = str(roofline_plot({name: float(value) for name, value in RATES.items()}))
    assert drawn.count("<polyline") == 1 and drawn.count("<circle") == 1
