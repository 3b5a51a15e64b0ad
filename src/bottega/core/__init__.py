"""The types that all packages share. Imports nothing else of Bottega and nothing outside the standard library."""
