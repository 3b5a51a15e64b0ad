"""The one LLM behind all roles: token completion for training, chat completion for everything else."""
