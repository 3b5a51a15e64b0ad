"""A layer of an installed library, built from its configuration."""

import torch
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm


def config():
    return [LlamaConfig(hidden_size=128, intermediate_size=256, num_attention_heads=4)]


class NormedMLP(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm, self.mlp = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps), LlamaMLP(config)

    def forward(self, hidden_states, **kwargs):
        return hidden_states + self.mlp(self.norm(hidden_states))
