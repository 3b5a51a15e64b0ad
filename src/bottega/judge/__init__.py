"""Is it right, is it faster, is it honest: a verdict that no kernel can forge."""
