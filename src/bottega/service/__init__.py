"""The judge over the network: HTTP server, MCP server, dashboard, and environments for other trainers."""
