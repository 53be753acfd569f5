"""The two errors a user sees as one sentence; anything else is a bug and keeps its traceback."""


class Avatar3dError(Exception):
    """Base of the errors that end a command with one sentence on stderr."""

    exit_code = 1


class InputError(Avatar3dError):
    """The input or the arguments were wrong: says what was given, what was expected and what to do (exit code 2)."""

    exit_code = 2


class WorkError(Avatar3dError):
    """The input was fine but the work failed, or a part this machine lacks was asked for (exit code 1)."""

    exit_code = 1
