"""Check that the version is the same in the package, CITATION.cff, CHANGELOG.md and a tag.

python .ci/check_version.py [v0.3.0]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = {  # each has the version in its first match
    "src/jnpl/_version.py": r'__version__ = "([^"]+)"',
    "CITATION.cff": r"(?m)^version: (.+)$",
    "CHANGELOG.md": r"(?m)^## \[([^\]]+)\]",
}


def versions(tag: str | None = None) -> dict[str, str]:
    """Return place -> version."""
    found = {} if tag is None else {f"the tag {tag}": tag.removeprefix("v")}
    for place, pattern in PLACES.items():
        match = re.search(pattern, (ROOT / place).read_text("utf-8"))
        found[place] = match[1] if match else "none"
    return found


if __name__ == "__main__":
    FOUND = versions(*sys.argv[1:2])
    if len({*FOUND.values()}) > 1:
        raise SystemExit(f"versions differ: {', '.join(f'{place} has {version}' for place, version in FOUND.items())}")
    print(FOUND["CITATION.cff"])
