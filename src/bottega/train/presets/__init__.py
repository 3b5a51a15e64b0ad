"""Settings that come along, as TOML files."""
