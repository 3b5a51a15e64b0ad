"""Settings of the commands, one file and one model for each. Training has its own, in `bottega.train.settings`."""
