"""Presets of training, as TOML files."""
