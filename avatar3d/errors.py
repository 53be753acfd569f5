"""The two errors a user sees as one sentence; anything else is a bug and keeps its traceback."""


MAX_SENTENCE = 500  # characters; what a damaged file holds may be quoted in one


class Avatar3dError(Exception):
    """Base of the errors that end a command with one sentence on stderr."""

    exit_code = 1


class InputError(Avatar3dError):
    """The input or the arguments were wrong: says what was given, what was expected and what to do (exit code 2).

    Whatever is quoted, the sentence is one line of printable characters, cut in its middle where it is longer than MAX_SENTENCE.
    """

    exit_code = 2

    def __init__(self, sentence: str) -> None:
        if len(sentence) > MAX_SENTENCE:
            sentence = f"{sentence[: MAX_SENTENCE // 2]} … {sentence[-MAX_SENTENCE // 3 :]}"
        if not sentence.isprintable():
            sentence = "".join(character if character.isprintable() else " " for character in sentence)
        super().__init__(sentence)


class WorkError(Avatar3dError):
    """The input was fine but the work failed, or a part this machine lacks was asked for (exit code 1)."""

    exit_code = 1
