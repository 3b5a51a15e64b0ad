"""Attacks on the judge, one small file each. `cpu` and `cuda` cheat; `hostile` breaks things."""
