"""Training: rewards, advantages, one loss, SFT and the RL loop."""
