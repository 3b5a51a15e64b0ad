"""How the one backbone learns: teachers and cold-start data, rewards, advantages, losses, SFT and the RL loop."""
