"""Mistakes as models make them, each with a name: a correct kernel in, one that looks as if it were right out.

Nobody here decides that it is wrong. The judge does, and what it finds correct after all is no mistake.
"""

from bottega.data.mistakes.making import MISTAKES, Made, mistakes_in, slips_of

__all__ = ["MISTAKES", "Made", "mistakes_in", "slips_of"]
