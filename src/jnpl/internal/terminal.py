"""Text for a terminal: names of classes and files may hold control characters, which a terminal would obey."""

import unicodedata
from typing import Any

_KINDS = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control characters, surrogates, separators of lines and paragraphs
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: object) -> str:
    """Return the text on one line, with an escape in place of every character that is not shown as itself.

    >>> visible("cat\\x1b[2J\\n")
    'cat\\\\x1b[2J\\\\n'
    """
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    return "".join(_escape(character) if _is_hidden(character) else character for character in plain)


def _is_hidden(character: str) -> bool:
    return character in _DIRECTIONS or unicodedata.category(character) in _KINDS


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def rounded(share: Any) -> str:
    """Return a probability, a number of any type, with two digits: that is more than anybody knows of it.

    >>> [rounded(share) for share in (1e-32, 0.0149, 0.99, 0.9999)]
    ['<0.01', '0.01', '0.99', '>0.99']
    """
    return "<0.01" if share < 0.01 else ">0.99" if share > 0.99 else f"{share:.2f}"
