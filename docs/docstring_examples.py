"""Let mkdocstrings show doctests as code: an extension of griffe (mkdocs.yml).

Docstrings of this package have a section `Example:`, or lines of a doctest without a heading. griffe knows only
`Examples:`.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """Gives every doctest the heading that griffe knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class or function."""
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"(?<=\n\n)((?:>>> .*\n?)(?:.+\n?)*)", _under_heading, text)


def _under_heading(match: re.Match[str]) -> str:
    return "Examples:\n" + "".join(f"    {line}\n" for line in match[1].splitlines())
