"""The two errors a user sees as one sentence; anything else is a bug and keeps its traceback."""

from avatar3d.text import printable, without_tokens

MAX_SENTENCE = 500  # characters; what a damaged file holds may be quoted in one


class Avatar3dError(Exception):
    """Base of the errors that end a command with one sentence on stderr.

    Whatever is quoted, the sentence is one line of printable characters, without the token of a
    specification, cut in its middle where it is longer than MAX_SENTENCE.
    """

    exit_code = 1

    def __init__(self, sentence: str) -> None:
        sentence = without_tokens(sentence)
        if len(sentence) > MAX_SENTENCE:
            sentence = f"{sentence[: MAX_SENTENCE // 2]} … {sentence[-MAX_SENTENCE // 3 :]}"
        super().__init__(printable(sentence))


class InputError(Avatar3dError):
    """The input or the arguments were wrong: says what was given, what was expected and what to do (exit code 2)."""

    exit_code = 2


class WorkError(Avatar3dError):
    """The input was fine but the work failed, or a part this machine lacks was asked for (exit code 1)."""

    exit_code = 1


# What libraries say instead of raising MemoryError: torch's allocator, Python's threads, OpenGL, the loader.
_REFUSED_MEMORY = (
    "can't allocate memory", "not enough memory", "out of memory", "can't start new thread", "GL_OUT_OF_MEMORY",
    "Cannot allocate memory", "failed to map segment",
)  # fmt: skip


def is_refused_memory(error: BaseException) -> bool:
    """Whether an exception, or one that it came from, is memory that the machine refused."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, MemoryError) or any(words in str(found) for words in _REFUSED_MEMORY):
            return True
        found = found.__cause__ or found.__context__
    return False
