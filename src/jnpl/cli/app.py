"""The program `jnpl`: its commands, and the exit codes for errors."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from jnpl._version import __version__
from jnpl.cli.apply import apply
from jnpl.cli.bench import app as bench
from jnpl.cli.corrupt import corrupt
from jnpl.cli.demo import demo
from jnpl.cli.embed import embed
from jnpl.cli.export import export
from jnpl.cli.find import find, train
from jnpl.cli.lists import backbones, datasets, methods, recipes
from jnpl.cli.predict import predict
from jnpl.cli.report import report
from jnpl.cli.reproduce import reproduce
from jnpl.cli.review import review
from jnpl.internal.errors import InputError
from jnpl.training.interrupt import Interrupted

# In the order of `jnpl --help`. A new command is a module of cli/ and a line here.
COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "demo": demo,
    "find": find,
    "embed": embed,
    "train": train,
    "predict": predict,
    "report": report,
    "review": review,
    "apply": apply,
    "export": export,
    "corrupt": corrupt,
    "reproduce": reproduce,
    "methods": methods,
    "recipes": recipes,
    "datasets": datasets,
    "backbones": backbones,
    "bench": bench,
}

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: quick, and readable in a pipe
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name)(_command)

# Depending on its version, typer raises click's usage errors or those of its own copy: this is their base class.
_UsageError: Any = typer.BadParameter.__bases__[0]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run `jnpl`. Exit codes: 0 done, 2 wrong input (one line), 130 interrupted, 1 a bug of ours (traceback)."""
    try:
        code = app(args=args, prog_name="jnpl", standalone_mode=False)
    except InputError as error:
        _fail(str(error))
    except _UsageError as error:
        _fail(f"{error.format_message()} (see {error.ctx.command_path if error.ctx else 'jnpl'} --help)")
    except Interrupted as stop:
        typer.echo(f"jnpl: {stop}", err=True)
        sys.exit(stop.code)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer also returns this code for an interrupt
        typer.echo("jnpl: interrupted", err=True)
    sys.exit(code or 0)


def _fail(message: str) -> NoReturn:
    typer.echo(f"jnpl: {' '.join(message.split())}", err=True)  # one line, also if the message quotes several
    sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jnpl {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Find the wrong labels in a data set and train a classifier that is robust to them."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
