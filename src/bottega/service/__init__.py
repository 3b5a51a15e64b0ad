"""The judge for people, agents and other trainers: HTTP, MCP, dashboard, environments."""
