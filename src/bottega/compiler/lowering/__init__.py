"""From torch operators to statements about elements. One file for each family of operators; `lower` walks the graph."""
