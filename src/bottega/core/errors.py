"""Errors a user may see: each says in one line what happened, where, and what to do about it."""


class BottegaError(Exception):
    """Base of every error that Bottega raises on purpose. Its text is fit to be shown as it stands."""


class UsageError(BottegaError):
    """The caller asked for something that cannot be done: a missing file, an option out of range."""


class TaskError(BottegaError):
    """The task cannot be used: it does not parse, lacks a name, raises, or returns nothing to compare."""


class SandboxError(BottegaError):
    """The machine cannot give a part of the sandbox that was required, or a sandbox failed to start or stopped answering."""


class JudgeError(BottegaError):
    """The judge itself failed, not the candidate. The candidate has no verdict and may be judged again."""


class NoJudgeError(JudgeError):
    """Nobody is left who judges: whoever needs verdicts must stop, and go on when there is a judge again."""


class CardError(BottegaError):
    """A skill card is not fit for the library: a field is missing, too long, lazy, or of a newer schema."""


class LibraryError(BottegaError):
    """The skill library cannot do what was asked: damaged, full, locked, or a name is taken or unknown."""


class BackboneError(BottegaError):
    """The model gave no usable answer: it cannot be loaded or reached, timed out, refused, or answered with garbage."""


class BudgetError(BottegaError):
    """A cap on tokens, money, kernels or time is reached. What was done before it stands."""


class TrainingError(BottegaError):
    """Training cannot go on: its numbers are no numbers, its data or its checkpoint cannot be used. The last good checkpoint stands."""
