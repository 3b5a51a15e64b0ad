"""Presets of the commands that do not train, as TOML files with a table for each command. Those of training are in `train.presets`."""
