"""The judge for others: over HTTP, for agents, in a browser, and as an environment for other trainers."""
