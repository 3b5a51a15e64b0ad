from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_models import CONTEXT, small_model, torch, with_lora

from bottega.backbone.weights import Weights, merged, save_config, unfit


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral"])
def test_the_family(kind: str) -> None:
    assert unfit(small_model(kind)) == ""


def test_what_is_not_of_the_family() -> None:
    assert "gpt2" in unfit(small_model("gpt2"))
    assert "attend" in unfit(small_model("mistral", sliding_window=64)) or "slides" in unfit(
        small_model("mistral", sliding_window=64)
    )
    assert "dynamic" in unfit(small_model(rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}))
    assert "gelu" in unfit(small_model(hidden_act="gelu"))
    strange = small_model()
    strange.model.layers[0].mlp.up_proj = torch.nn.Sequential(strange.model.layers[0].mlp.up_proj)
    assert "Sequential" in unfit(strange)


def test_dora_is_left_to_transformers() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(small_model(), peft.LoraConfig(r=2, use_dora=True, target_modules=["q_proj"]))
    assert "Linear" in unfit(model)


def test_only_what_must_be_is_copied() -> None:
    model = small_model()
    weights = Weights(model, CONTEXT)
    layer, mine = model.model.layers[0], weights.layers[0]
    assert mine.out.data_ptr() == layer.self_attn.o_proj.weight.data_ptr()
    assert mine.down.data_ptr() == layer.mlp.down_proj.weight.data_ptr()
    assert weights.embedding.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    rows = [layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight, layer.self_attn.v_proj.weight]
    assert torch.equal(mine.qkv, torch.cat(rows))
    with torch.no_grad():
        layer.self_attn.k_proj.weight.zero_()
    assert not weights.refresh()  # nothing has moved
    assert mine.qkv.data_ptr() == weights.layers[0].qkv.data_ptr()
    assert torch.equal(weights.layers[0].qkv, torch.cat(rows))


def test_a_parameter_that_moved_is_noticed() -> None:
    model = small_model()
    weights = Weights(model, CONTEXT)
    model.model.norm.weight.data = model.model.norm.weight.data.clone()
    assert weights.refresh()
    assert not weights.refresh()


def test_another_dtype_is_copied_whole() -> None:
    model = small_model()
    weights = Weights(model, CONTEXT, torch.bfloat16)
    assert weights.embedding.dtype == weights.layers[0].down.dtype == torch.bfloat16
    assert weights.own_bytes > sum(2 * parameter.numel() for parameter in model.parameters()) - 2 * model.lm_head.weight.numel()


def test_an_adapter_is_merged_once() -> None:
    model = with_lora(small_model())
    inner = model.get_base_model()
    layer = inner.model.layers[0].mlp.down_proj
    x = torch.randn(3, layer.in_features)
    with torch.no_grad():
        assert torch.allclose(layer(x), x @ merged(layer).T, atol=1e-5)
        model.merge_adapter()
        assert torch.allclose(layer(x), x @ merged(layer).T, atol=1e-5)
        model.unmerge_adapter()
        with model.disable_adapter():
            assert torch.equal(merged(layer), layer.base_layer.weight)


def test_a_module_that_is_the_decoders_own_is_laid_out_anew() -> None:
    model = small_model()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    weights = Weights(model, CONTEXT, adopt=True)
    joined = (weights.layers[0].qkv, weights.layers[0].gate_up)
    lent = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    assert all(buffer.untyped_storage().data_ptr() in lent for buffer in joined), "what is joined is there once"
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight.fill_(3.0)
    assert not weights.refresh()
    assert (weights.layers[0].gate_up[-1] == 3.0).all() and not (weights.layers[0].gate_up[0] == 3.0).any()


def test_a_config_says_which_class_the_weights_belong_to(tmp_path: Path) -> None:
    """vLLM takes a model without it for one that does not generate."""
    model = small_model()
    assert model.config.architectures is None
    save_config(model, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]
