"""Fill the generated parts of docs/methods from the registry: `python docs/generate.py` (`--check`: only look)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pydantic_core import PydanticUndefined

from jnpl.methods.registry import METHODS, table

PAGES = Path(__file__).parent / "methods"
BLOCK = re.compile(r"(<!-- settings: generated -->\n).*?(<!-- end -->)", re.DOTALL)


SKELETON = """# {name}

## Equation

## Settings
<!-- settings: generated -->
<!-- end -->

## What differs from the original, and why

## Unverified
"""


def index() -> str:
    """docs/methods/README.md: all methods, as `jnpl methods` lists them."""
    rows = [
        f"| [`{row['name']}`]({row['name']}.md) | {row['paper']} | {row['networks']} | {', '.join(row['stages'])} "
        f"| {row['needs']} | {row['score'].replace('|', '&#124;')} |"
        for row in table()
    ]
    head = "| method | paper | networks | stages | needs in advance | label quality |\n|---|---|---|---|---|---|"
    return f"""# Methods

All run under one loop, on vectors and images, on one or several processes, and resume exactly; all give a classifier
and a quality for every label. `jnpl methods` prints this table, and this page is generated from the same registry
(`python docs/generate.py`). [How they compare on real CIFAR-10](../rivals.md).

{head}
{chr(10).join(rows)}

Label quality lies in 0..1, lower is worse. `jnpl train DATA -o RUN --method NAME` trains one, `--set
method.KEY=VALUE` changes its settings, `--set stages.STAGE.KEY=VALUE` the plan of one of its stages; a stage without
a plan of its own has that of `[train]`. Recipes with the papers' settings: `jnpl recipes`.
"""


def settings(name: str) -> str:
    """The settings of a method as a table."""
    fields = {key: field for key, field in METHODS[name].Settings.model_fields.items() if key != "name"}
    if not fields:
        return "None of its own.\n"
    rows = []
    for key, field in fields.items():
        default = "required" if field.default is PydanticUndefined else f"`{field.default!r}`"
        rows.append(f"| `method.{key}` | {default} | {field.description or ''} |".replace("| ''", "|"))
    return "\n".join(["| setting | default | |", "|---|---|---|", *rows]) + "\n"


def pages() -> dict[Path, str]:
    """Every page as it should be."""
    made = {PAGES / "README.md": index()}
    for name in METHODS:
        path = PAGES / f"{name}.md"
        text = path.read_text("utf-8") if path.exists() else SKELETON.format(name=name)
        if not BLOCK.search(text):
            raise SystemExit(f"{path} has no place for its settings")
        made[path] = BLOCK.sub(lambda match, name=name: match[1] + settings(name) + match[2], text)
    return made


def main() -> None:
    """Write what differs, or tell it."""
    differing = [path for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        if differing:
            raise SystemExit(f"not up to date: {', '.join(map(str, differing))}; run python docs/generate.py")
        return
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
