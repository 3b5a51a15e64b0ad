"""The three roles of the one model: each builds a prompt from typed inputs and reads an answer back. Nothing here talks to anyone."""
