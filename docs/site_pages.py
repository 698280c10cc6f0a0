"""Pages of the site that are not files of docs/: a hook of MkDocs (mkdocs.yml).

The home page is README.md; CONTRIBUTING.md, CHANGELOG.md, the page of the benchmarks and the examples are shown too.
The reference is written from the program itself at every build, so that it cannot be out of date: commands from their
options, recipes from their files, the run folder and the glossary from docs/architecture.md.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import site_demo
import typer
from mkdocs.structure.files import File

from jnpl.cli.app import COMMANDS, app
from jnpl.recipes.load import load_recipe, recipe_file, recipe_names
from jnpl.recipes.schema import Recipe

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(\]\(|src=\")(?!\w+:|#)([^)\s\"#]+)")
# Files outside docs/ -> their pages
SHOWN = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
    "SECURITY.md": "SECURITY.md",
    "benchmarks/README.md": "benchmarks/README.md",
}
PYTHON = {  # headings of the page of the Python interface, and what stands under each
    "Find wrong labels": (
        "jnpl.api.label_issues.find_label_issues",
        "jnpl.api.label_issues.score_labels",
        "jnpl.api.estimator.JNPLClassifier",
        "jnpl.api.monitor.Monitor",
        "jnpl.judging.findings.Findings",
        "jnpl.judging.ledger.Ledger",
    ),
    "Embed": ("jnpl.api.embeddings.embed", "jnpl.api.embeddings.Embeddings"),
    "Predict": ("jnpl.outputs.saved_model.load", "jnpl.outputs.saved_model.SavedModel"),
    "Losses": ("jnpl.losses.modules", "jnpl.losses.functional", "jnpl.losses.complement"),
    "Label noise": ("jnpl.noise.generate", "jnpl.noise.noisy_labels.NoisyLabels"),
    "Metrics": ("jnpl.judging.metrics",),
    "Data": ("jnpl.data.opening.open_source", "jnpl.analysis.problems.problems"),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    pages = {page: (ROOT / path).read_text("utf-8") for path, page in SHOWN.items()}
    for path in sorted((ROOT / "examples").glob("*.py")):
        pages[f"examples/{path.stem}.md"] = f"# {path.name}\n\n```python\n{path.read_text('utf-8')}```\n"
    pages["reference/commands.md"] = commands()
    pages["reference/python.md"] = python()
    pages["reference/recipes.md"] = recipes()
    pages["reference/run-folder.md"] = section("Run folder")
    pages["reference/glossary.md"] = section("Glossary")
    pages["llms.txt"] = _for_site((ROOT / "llms.txt").read_text("utf-8"))
    made: dict[str, str | bytes] = {**pages, **{f"demo/{path}": content for path, content in site_demo.files().items()}}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def _for_site(text: str) -> str:
    """Let the links of llms.txt lead to the pages of the site."""
    return re.sub(r"\]\(docs/([\w/-]+)\.md\)", lambda match: f"]({match[1].removesuffix('README')}/)", text)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Let links between files of the repository lead to their pages."""
    place = page.file.src_uri
    origin = next((path for path, shown in SHOWN.items() if shown == place), f"docs/{place}")

    def follow(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[2]))
        shown = SHOWN.get(target) or (target[5:] if target.startswith("docs/") else None)
        if re.fullmatch(r"examples/\w+\.py", target):
            shown = target[:-3] + ".md"
        if shown is None or shown == "templates":
            return _without_page(match, target)
        return match[1] + posixpath.relpath(shown, posixpath.dirname(place) or ".")

    return LINK.sub(follow, markdown)


def _without_page(match: re.Match[str], target: str) -> str:
    """A file that is only in the repository, such as LICENSE: the link is left without a target of its own."""
    if not (ROOT / target).exists():
        raise ValueError(f"a link leads to {target}, which does not exist")
    return match[1] + "#"


def commands() -> str:
    """Return the page of all commands: usage, help and options of each, as `jnpl COMMAND --help` has them."""
    program: Any = typer.main.get_command(app)
    about = (
        "This page has the text of `jnpl COMMAND --help`. Exit codes: 0 done, 2 wrong input (one line says what was "
        "expected), 3 a gate of `jnpl check` failed, 130 interrupted, 1 an error of the program. With `--json` a "
        "command prints exactly one JSON object to standard output. `jnpl --install-completion` teaches your shell the "
        "commands and their options."
    )
    parts = [f"# Commands\n\n{about}"]
    for name in COMMANDS:
        command = program.commands[name]
        for words, each in [(name, command), *((f"{name} {sub}", it) for sub, it in _subcommands(command).items())]:
            parts.append(_command(words, each))
    return "\n\n".join(parts) + "\n"


def _subcommands(command: Any) -> dict[str, Any]:
    return getattr(command, "commands", {})


def _command(words: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and param.name != "help"]
    usage = " ".join(["jnpl", words, *(_metavar(each) for each in arguments), "[OPTIONS]" if options else ""]).strip()
    rows = [f"| `{_metavar(each)}` | {_cell(each.help)} | |" for each in arguments]
    for option in options:
        if not getattr(option, "hidden", False):
            names = ", ".join([*option.opts, *option.secondary_opts])
            rows.append(f"| `{names}` | {_cell(option.help)} | {_default(option)} |")
    table = "\n".join(["| option | meaning | default |", "|---|---|---|", *rows]) if rows else ""
    return f"## jnpl {words}\n\n```text\n{usage}\n```\n\n{_cell(command.help)}\n\n{table}"


def _metavar(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper()
    return name if argument.required else f"[{name}]"


def _default(option: Any) -> str:
    value = option.default
    if value is None or value is False or value in ((), "") or type(value).__name__ in ("Sentinel", "UnsetType"):
        return ""
    return f"`{value}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")


def python() -> str:
    """Return the page of the Python interface; mkdocstrings fills it from the docstrings."""
    parts = ["# Python\n\nWhat `jnpl` itself, `jnpl.losses`, `jnpl.noise` and `jnpl.functional` export, and the data."]
    for heading, names in PYTHON.items():
        parts += [f"## {heading}", *(f"::: {name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def recipes() -> str:
    """Return the page of the recipes: what each is for, all settings, and the file of each."""
    file_of = {name: recipe_file(name).removesuffix(".toml") for name in recipe_names()}
    rows = [f"| [`{name}`](#{file}) | {_cell(load_recipe(name).description)} |" for name, file in file_of.items()]
    about = (
        "A recipe holds all settings of a run. `jnpl recipes` lists them, `jnpl recipes NAME` prints every setting of "
        "one, `--recipe NAME_OR_FILE` chooses one and `--set key=value` changes a setting ([Training](../training.md))."
        " The files of the package follow below. Where a file has several recipes, a table `[NAME]` or `[NAME.train]` "
        "says what the recipe NAME changes in the rest of the file; a file of your own is one recipe."
    )
    parts = [
        f"# Recipes\n\n{about}",
        "\n".join(["| recipe | |", "|---|---|", *rows]),
        "## Settings\n\nSettings of a method are on the [page of the method](../methods/README.md).",
        settings(),
    ]
    for file in sorted({*file_of.values()}):
        text = (ROOT / f"src/jnpl/recipes/{file}.toml").read_text("utf-8").strip()
        parts.append(f"## {file}\n\n```toml\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def settings() -> str:
    """Return a table of all settings that a recipe may have, with their defaults."""
    rows: list[str] = []

    def add(model: Any, before: str) -> None:
        for key, field in model.model_fields.items():
            kinds = [each for each in (field.annotation, *getattr(field.annotation, "__args__", ())) if _is_group(each)]
            if kinds and key not in ("method", "stages"):
                add(kinds[0], f"{before}{key}.")
            elif key not in ("method", "stages", "description"):
                default = "" if field.is_required() or field.default_factory else f"`{field.default}`"
                rows.append(f"| `{before}{key}` | {default} | {_cell(field.description)} |")

    add(Recipe, "")
    return "\n".join(["| setting | default | |", "|---|---|---|", *rows])


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_fields")


def section(heading: str) -> str:
    """Return a section of docs/architecture.md as a page."""
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"docs/architecture.md has no section {heading!r}")
    return f"# {heading}\n{found[1]}"
