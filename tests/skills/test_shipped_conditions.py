"""The cards that ship, on the built-in tasks: their typed conditions keep those that fit and leave out those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.device import DeviceFacts
from bottega.core.skill import AppliesTo, SkillState
from bottega.episodes.selecting import retrieve
from bottega.episodes.settings import EpisodeSettings
from bottega.skills.conditions import holds
from bottega.skills.library import Library
from bottega.skills.shipped import begin_library
from bottega.skills.starter import starter_cards
from bottega.tasks.load import load_task

CPU = DeviceFacts("cpu", "Neoverse-N1", "aarch64 asimd", 8, 16.0)
H200 = DeviceFacts("cuda", "NVIDIA H200", "sm_90", 132, 141.0)
A100 = DeviceFacts("cuda", "NVIDIA A100-SXM4-80GB", "sm_80", 108, 80.0)
FREE = {"compile_time_shapes", "fold_parameters_lazily", "strides_instead_of_copies", "workspace_kept_between_calls"}
"""Nothing that a call graph or a device shows rules them out."""
OFFERED: dict[str, dict[str, tuple[set[str], set[str]]]] = {
    "cpp": {
        "linear_few_rows_stream_weights": (set(), {"swiglu", "linear_mish_residual"}),
        "scan_two_pass_threads": ({"log_cumsum_exp"}, {"cumsum_over_time", "argmin_over_axis"}),
        "conv_batch_norm_folded": ({"conv_norm_relu_pool", "small_cnn"}, {"residual_mlp", "convnext_block"}),
        "attention_query_tiles": ({"causal_attention", "transformer_block"}, {"rotary_queries_and_keys", "log_cumsum_exp"}),
        "bfloat16_bits_in_cpp": ({"geglu_bf16", "logit_softcap_bf16"}, {"swiglu"}),
        "tanh_two_range_simd": ({"gated_scan", "logit_softcap_bf16"}, {"star_relu"}),
        "outer_reduction_private_rows": ({"column_dot_products"}, {"masked_row_sum"}),
        "elementwise_chain_one_pass": ({"masked_row_sum", "star_relu"}, {"gram_matrices"}),
    },
    "triton": {
        "triton_scan_with_carry": ({"cumsum_over_time", "log_cumsum_exp"}, {"causal_attention"}),
        "triton_flash_attention": ({"causal_attention"}, {"log_cumsum_exp"}),
        "triton_two_stage_reduction": ({"policy_gradient_loss"}, {"logsumexp_rows", "weighted_bce_rows"}),
        "triton_swiglu_dot_precision": ({"linear_mish_residual", "swiglu"}, {"log_cumsum_exp"}),
        "triton_swiglu_tile": ({"linear_mish_residual", "swiglu"}, {"log_cumsum_exp"}),
        "library_product_one_tail_kernel_794ad169_triton": ({"linear_mish_residual"}, {"log_cumsum_exp"}),
    },
}
"""For each card tasks that are offered it, and tasks that are not."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with Library(tmp_path_factory.mktemp("library") / "shipped") as made:
        begin_library(made)
        yield made


def offered(library: Library, name: str, language: str, device: DeviceFacts) -> set[str]:
    size = "cpu" if device.kind == "cpu" else "gpu"
    settings = EpisodeSettings(device=device.kind, language=language, unproved=True, select="bm25", retrieved=20)
    return {
        skill.name for skill in retrieve(library, load_task(f"builtin:{name}", size=size), settings, device, library.version)
    }


@pytest.mark.parametrize("language", OFFERED)
def test_a_task_is_offered_what_fits_it_and_not_what_shares_only_words(library: Library, language: str) -> None:
    device = CPU if language == "cpp" else H200
    tasks = {name for fitting, others in OFFERED[language].values() for name in (*fitting, *others)}
    found = {name: offered(library, name, language, device) for name in tasks}
    for card, (fitting, others) in OFFERED[language].items():
        assert {name for name in fitting | others if card in found[name]} == fitting, card


def test_what_was_proved_on_one_device_is_not_offered_on_another(library: Library) -> None:
    proved = {card.name for card in library.cards(SkillState.ADMITTED) if "triton" in card.languages}
    assert len(proved) == 3
    assert proved <= offered(library, "linear_mish_residual", "triton", H200)
    assert not proved & offered(library, "linear_mish_residual", "triton", A100)


def test_without_conditions_the_same_words_bring_the_wrong_cards(tmp_path: Path) -> None:
    """What the conditions are for: a scan along rows for one along columns, a GEMV for a product of many rows."""
    with Library(tmp_path / "bare") as bare:
        bare.add_many([replace(card, applies_to=AppliesTo()) for card in starter_cards()])
        assert "scan_two_pass_threads" in offered(bare, "cumsum_over_time", "cpp", CPU)
        assert "linear_few_rows_stream_weights" in offered(bare, "swiglu", "cpp", CPU)


def test_every_card_that_ships_says_where_it_applies(library: Library) -> None:
    assert {card.name for card in library.cards() if not card.applies_to} == FREE


@pytest.mark.rotates
def test_each_card_of_the_starter_set_holds_on_a_task_that_ships() -> None:
    """But for those of sizes and operators that the suite has not."""
    absent = {
        "int64_offsets",
        "streaming_stores_large_output",
        "upsample_tap_tables",
        "linear_few_rows_stream_weights",
        "size_one_reductions_vanish",
    }
    names = {card.name for card in starter_cards() if card.applies_to} - absent
    left = {card.name: card for card in starter_cards() if card.name in names}
    for size, device in (("cpu", CPU), ("gpu", H200)):
        for name in SUITE:
            workload = shared_tracer().workload(load_task(f"builtin:{name}", size=size), device)
            left = {
                key: card
                for key, card in left.items()
                if device.kind not in card.devices or not holds(card.applies_to, workload)
            }
    assert not left


SUITE = (
    "argmin_over_axis", "batch_norm_inference", "causal_attention", "conv_norm_relu_pool", "cumsum_over_time",
    "depthwise_conv7x7", "dilated_max_pool", "edge_convolution", "embedding_bag_sum", "geglu_bf16", "gram_matrices",
    "group_norm_sequence", "gru_unrolled", "log_cumsum_exp", "logsumexp_rows", "manhattan_distances", "masked_row_sum",
    "max_excitation", "paged_cache_write", "policy_gradient_loss", "rms_norm_rows", "scatter_max_to_nodes",
    "softmax_over_positions", "swiglu", "tiny_unet", "transposed_conv1d", "weighted_bce_rows",
)  # fmt: skip
