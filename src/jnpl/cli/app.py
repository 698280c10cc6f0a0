"""The program `jnpl`: its commands, and the exit codes for errors."""

import atexit
import gc
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from jnpl._version import __version__
from jnpl.cli.apply import apply
from jnpl.cli.audit import audit
from jnpl.cli.bench import app as bench
from jnpl.cli.check import check
from jnpl.cli.corrupt import corrupt
from jnpl.cli.demo import demo
from jnpl.cli.doctor import doctor
from jnpl.cli.embed import embed
from jnpl.cli.export import export
from jnpl.cli.find import find, train
from jnpl.cli.lists import backbones, datasets, methods, recipes
from jnpl.cli.mcp import mcp
from jnpl.cli.predict import predict
from jnpl.cli.report import report
from jnpl.cli.reproduce import reproduce
from jnpl.cli.review import review
from jnpl.internal.allocator import keep_freed_memory
from jnpl.internal.errors import InputError, Interrupted, is_out_of_memory
from jnpl.internal.terminal import visible

# In the order of `jnpl --help`. A new command is a module of cli/ and a line here.
COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "demo": demo,
    "find": find,
    "embed": embed,
    "train": train,
    "predict": predict,
    "check": check,
    "report": report,
    "review": review,
    "audit": audit,
    "apply": apply,
    "export": export,
    "mcp": mcp,
    "corrupt": corrupt,
    "reproduce": reproduce,
    "methods": methods,
    "recipes": recipes,
    "datasets": datasets,
    "backbones": backbones,
    "doctor": doctor,
    "bench": bench,
}

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: quick, and readable in a pipe
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name)(_command)

_TRAINING = ("epochs", "batch_size", "optimizer", "lr", "momentum", "weight_decay", "schedule")  # settings, no options
_LONGEST = 300  # characters of an error
# Depending on its version, typer raises click's usage errors or those of its own copy: this is their base class.
_UsageError: Any = typer.BadParameter.__bases__[0]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run `jnpl`. Exit codes: 0 done, 2 wrong input (one line), 3 a gate of `check` failed, 130 interrupted, 1 our bug.

    What the operating system refuses (a file, a folder, space, memory) counts as wrong input. With --debug, anywhere
    on the command line, the traceback of every error is printed too.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in ours
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries, for their programmers; python -W shows them
    _prepare_output()
    keep_freed_memory()  # before there are threads
    gc.set_threshold(300_000, 20)  # imports make a million objects and no garbage
    atexit.register(gc.freeze)  # what is left ends with the process: a last search for garbage takes half a second
    try:
        code = app(
            args=[argument for argument in ours if argument != "--debug"] + arguments[len(ours) :],
            prog_name="jnpl",
            standalone_mode=False,
        )
        sys.stdout.flush()  # a full disk is an error, here too
    except Interrupted as stop:
        typer.echo(f"jnpl: {visible(stop)}", err=True)
        sys.exit(stop.code)
    except (KeyboardInterrupt, typer.Abort) as stop:
        code = _code_of(stop)
    except BrokenPipeError:  # `jnpl recipes | head`: nobody reads on
        _discard_output()
        sys.exit(1)  # as typer exits, where it sees this first
    except Exception as error:
        message = error_line(error)
        if message is None:
            raise
        if debug:
            traceback.print_exc()
        _fail(message)
    if code == 130:  # typer also returns this code for an interrupt
        typer.echo("jnpl: interrupted", err=True)
    sys.exit(code or 0)


def _code_of(stop: BaseException) -> int:
    """Return 130 for Ctrl-C; typer takes the end of a file, in a reader of ours, for the same: raise that again."""
    if isinstance(stop.__cause__, EOFError):
        raise stop.__cause__ from None
    return 130


def error_line(error: Exception) -> str | None:
    """Return the line for an error that is not our own fault; None for all others."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, _UsageError):
        command, message = error.ctx.command_path if error.ctx else "jnpl", error.format_message()
        setting = getattr(error, "option_name", "").lstrip("-").replace("-", "_")
        if command in ("jnpl find", "jnpl train") and setting in _TRAINING:
            message = f"No such option: {error.option_name}; give --set train.{setting}=VALUE"
        return f"{message} (see {command} --help)"
    if is_out_of_memory(error):
        return "there is not enough memory: take fewer or smaller samples, or a smaller --size or train.batch_size"
    if isinstance(error, OSError):
        if error.filename is None:
            _discard_output()  # it may be the output that cannot be written: the interpreter would try again
            return f"cannot read or write: {error.strerror or error}"
        return f"cannot read or write {os.fsdecode(error.filename)!r}: {error.strerror or error}"
    return None


def _prepare_output() -> None:
    """Let letters that the encoding of the output lacks be written as \\u732b; output that is closed goes nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the next file to be opened would take its place
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Let standard output go nowhere, so that the interpreter does not fail to flush it at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no file of the operating system
        sys.stdout = io.StringIO()


def _fail(message: str) -> NoReturn:
    line = visible(" ".join(message.split()))  # one line, also if the message quotes several
    if len(line) > _LONGEST:  # its end often says what would be right
        line = f"{line[: _LONGEST - 125]} ... {line[-120:]}"
    typer.echo(f"jnpl: {line}", err=True)
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
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the program an error was raised; goes with every command.")
    ] = False,
) -> None:
    """Find mislabelled photos, texts and table rows, fix them, and get a classifier robust to the ones you miss."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
