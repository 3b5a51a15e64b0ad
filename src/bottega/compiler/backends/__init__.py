"""One folder for each language that plans are written in."""
