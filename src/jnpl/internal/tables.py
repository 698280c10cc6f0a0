"""What all table files share: the suffixes they may have, and text that a spreadsheet would run as a formula."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    import os

SUFFIXES = (".csv", ".parquet", ".json")
# A spreadsheet would run a cell that starts so (OWASP). Apostrophes before it count, so that one can be removed again.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def suffix_of(path: str | os.PathLike[str], only: str | None = None) -> str:
    """Return the suffix of a table file, in lower case; any but the three known ones (or `only`) is an InputError.

    >>> suffix_of("predictions.CSV")
    '.csv'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (SUFFIXES if only is None else (only,)):
        raise InputError(f"the file's name must end in {only or ', '.join(SUFFIXES)}, got {str(path)!r}")
    return suffix


def escaped(text: str) -> str:
    """Return the text with an apostrophe in front if a spreadsheet would take it for a formula.

    >>> escaped("=1"), escaped("tis")
    ("'=1", 'tis')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(text: str) -> str:
    """Remove the apostrophe that `escaped` put in front.

    >>> unescaped("'=1"), unescaped("'tis")
    ('=1', "'tis")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
