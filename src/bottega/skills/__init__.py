"""The skill library: cards in SQLite, their search index, the admission gate, and their evidence."""
