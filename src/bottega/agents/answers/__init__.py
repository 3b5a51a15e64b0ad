"""What happens to an answer between the model and the judge: parse, link, lint, repair."""
