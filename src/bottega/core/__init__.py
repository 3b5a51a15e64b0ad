"""The nouns everyone shares. This room imports nothing of Bottega's and nothing outside the standard library."""
