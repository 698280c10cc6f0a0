"""The documentation names modules, files, commands and options that exist; tests/test_walkthroughs.py runs its code."""

import importlib
import re
import shlex

import pytest
import typer

import jnpl
from jnpl.cli.app import COMMANDS, app
from tests.helpers.paths import ROOT
from tests.helpers.scripts import load_script

PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "llms.txt")
    ),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "templates" not in path.parts),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ABSENT = re.compile(r".*label[-_]smoothing")  # the method that CONTRIBUTING adds as an example
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def blocks(page, *languages):
    return [text for language, text in FENCE.findall(page.read_text("utf-8")) if language in languages]


def resolve(name):
    """Import the longest module in a dotted name, then follow its attributes."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            thing = getattr(thing, part)
        return thing
    raise ModuleNotFoundError(name)


def is_example(page, name):
    return page.name == "CONTRIBUTING.md" and ABSENT.match(name)


@pages
def test_every_module_and_function_exists(page):
    names = set(re.findall(r"(?<![\w/.-])jnpl(?!\.md\b)(?:\.[A-Za-z_]\w*)+", page.read_text("utf-8")))
    for name in sorted(names):
        assert is_example(page, name) or resolve(name) is not None


@pages
def test_every_file_exists(page):
    named = re.findall(r"(?<![\w/.-])(?:src|tests|docs|benchmarks|examples)/[\w./*-]*\w", page.read_text("utf-8"))
    missing = [name for name in sorted(set(named)) if not any(ROOT.glob(name)) and not is_example(page, name)]
    assert missing == []


@pages
def test_code_in_lists_is_indented_as_the_site_needs_it(page):
    """GitHub takes three spaces; MkDocs shows such code as a part of the sentence."""
    assert re.findall(r"^(?: {1,3}|\d+\. )```.*$", page.read_text("utf-8"), re.MULTILINE) == []


def slug(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pages
def test_every_link_leads_somewhere(page):
    text = page.read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)) if "://" not in link]
    for link in links:
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, link


def commands(page):
    """Words of every `jnpl` command line in the console blocks of a page."""
    for text in blocks(page, "console", "sh", ""):
        for line in text.replace("\\\n", " ").splitlines():
            if match := re.search(r"(?:^|\s)jnpl (?=[a-z])(.*)", line):
                yield shlex.split(match[1], comments=True)


@pages
def test_every_command_and_option_exists(page):
    program = typer.main.get_command(app)
    for words in commands(page):
        command = program
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert command is not program, words
        options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        used = {word.split("=")[0] for word in words if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word)}
        assert used <= options, (command.name, used - options)


def test_llms_txt_lists_every_command_name_and_page():
    text = (ROOT / "llms.txt").read_text("utf-8")
    assert re.findall(r"^- `jnpl ([\w-]+)`: \w", text, re.MULTILINE) == list(COMMANDS)
    assert re.findall(r"^- `jnpl\.(\w+)`: \w", text, re.MULTILINE) == [n for n in jnpl.__all__ if n[0] != "_"]
    in_navigation = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert {f"docs/{name}" for name in in_navigation if (ROOT / "docs" / name).exists()} <= {
        *re.findall(r"\]\((docs/[\w-]+\.md)\)", text)
    }


def test_the_workflows_and_templates_can_be_read_and_call_targets_that_exist():
    yaml = pytest.importorskip("yaml", reason="PyYAML is in the group `docs`")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml"]
    assert len(files) > 4
    for file in files:
        text = file.read_text("utf-8")
        assert yaml.safe_load(text), file
        assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets, file
        if file.parent.name != "workflows":
            continue
        for job in yaml.safe_load(text)["jobs"].values():
            inputs = [step.get("with", {}).values() for step in job["steps"]]
            assert not [value for values in inputs for value in values if isinstance(value, list | dict)], file


def test_the_version_is_the_same_everywhere_and_a_tag_must_name_it():
    versions = load_script(".ci/check_version.py").versions
    assert set(versions(f"v{jnpl.__version__}").values()) == {jnpl.__version__}
    assert versions("v9.9")["the tag v9.9"] == "9.9"
