"""Exceptions for wrong input and for signals, and checks of numbers. Messages have one line."""

import operator


class InputError(ValueError):
    """The user's input is wrong. The message names the value received and what would be right."""


class LearningError(InputError):
    """Training cannot go on: no labelled sample is left, or the loss is not finite."""


class MissingExtraError(InputError, ImportError):
    """An optional dependency is not installed. The message names the extra that installs it."""


class UntrustedCodeError(InputError):
    """A file names code that loading it would run, and the user has not allowed that."""


class UnwritableError(InputError, OSError):
    """A file cannot be written. The message names the path and the operating system's reason."""


class Interrupted(Exception):  # noqa: N818 (nothing went wrong)
    """A signal stopped the run, which is saved; `code` is the exit code the shell expects (128 + signal)."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.code = 128 + number


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether Python, NumPy or PyTorch, on a CPU or a GPU, could not get memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    # PyTorch has no type of its own for memory of the CPU; "std::bad_alloc" is of C++.
    parts = ("can't allocate memory", "not enough memory", "bad_alloc", "Cannot allocate memory")
    return isinstance(error, RuntimeError | OSError) and any(part in str(error) for part in parts)


def one_line(error: BaseException, width: int = 200) -> str:
    """Return the type and message of an exception on one line of at most `width` characters.

    >>> one_line(KeyError("conv1"))
    "KeyError: 'conv1'"
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= width else text[: width - 3] + "..."


def whole(value: int, name: str) -> int:
    """Return a whole number, of Python or numpy, as an int."""
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}") from None


def checked_seed(seed: int) -> int:
    """Return a seed, a whole number of at least 0, as an int."""
    if whole(seed, "seed") < 0:
        raise InputError(f"seed must not be negative, got {seed}")
    return operator.index(seed)
