"""Files of the kind that users have, and how each is asked for: what `optimize` accepts, drafts must be written for."""

CORPUS: dict[str, tuple[str, dict[str, str]]] = {
    "decoder_layer": ("decoder_layer.py", {"class_name": "DecoderLayer", "inputs": "torch.randn(2, 48, 64)"}),
    "masked_layer": (
        "decoder_layer.py",
        {"class_name": "DecoderLayer", "inputs": "torch.randn(2, 32, 64), mask=torch.zeros(32, 32)"},
    ),
    "one_of_several": ("decoder_layer.py", {"class_name": "RMSNorm", "init": "512", "inputs": "torch.randn(128, 512)"}),
    "loss": ("focal_dice.py", {"inputs": "torch.randn(8, 128, 128), (torch.rand(8, 128, 128) > 0.5).float()"}),
    "convnext": ("convnext.py", {"init": "dim=32", "inputs": "torch.randn(2, 32, 14, 14)"}),
    "of_a_package": ("shop/model.py", {"class_name": "Residual", "init": "256", "inputs": "torch.randn(512, 256)"}),
    "from_a_package": ("uses_package.py", {"class_name": "ScaledNorm", "init": "DIM", "inputs": "example"}),
    "library_class": ("library_layer.py", {"class_name": "LlamaMLP", "init": "config", "inputs": "torch.randn(2, 16, 128)"}),
    "library_parts": ("library_layer.py", {"class_name": "NormedMLP", "init": "config", "inputs": "torch.randn(2, 16, 128)"}),
    "model_output": ("model_output.py", {"class_name": "Pooler", "inputs": "torch.randn(4, 32, 128)"}),
    "dictionaries": ("dictionaries.py", {"inputs": "example"}),
    "keywords": (
        "keywords.py",
        {"init": "dim=64", "inputs": "torch.randn(8, 64, 64), scale=torch.randn(8, 64), shift=torch.randn(8, 64)"},
    ),
    "buffers": ("buffers.py", {"class_name": "TanhWhitening", "inputs": "torch.randn(512, 192)"}),
    "function": (
        "functions.py",
        {"function": "apply_rotary", "inputs": "torch.randn(2, 8, 64, 32), torch.randn(64, 16), torch.randn(64, 16)"},
    ),
    "function_keywords": (
        "functions.py",
        {"function": "geglu", "inputs": "torch.randn(64, 128), torch.randn(256, 128), approximate='none'"},
    ),
    "factory": ("factory.py", {"class_name": "make_head", "init": "128", "inputs": "torch.randn(64, 128)"}),
    "half": (
        "half.py",
        {"inputs": "torch.randn(256, 256, dtype=torch.bfloat16), torch.randn(256, 256, dtype=torch.bfloat16)"},
    ),
}
