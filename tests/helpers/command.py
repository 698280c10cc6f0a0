"""A command as a user gives it."""

import pytest

from jnpl.cli.app import main


def jnpl(capsys, *args):
    """Exit code, standard output, standard error."""
    with pytest.raises(SystemExit) as stop:
        main(list(args))
    told = capsys.readouterr()
    return stop.value.code, told.out, told.err
