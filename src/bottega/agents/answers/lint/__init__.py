"""Static checks of an answer against the call graph of its task."""
