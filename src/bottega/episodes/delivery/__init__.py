"""What a finished search hands over: a file that needs no Bottega, the verdict that holds for it, and how it came about."""
