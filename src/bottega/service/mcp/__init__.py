"""The judge, the skills and the search as tools of coding agents, over the Model Context Protocol."""
