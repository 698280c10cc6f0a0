"""Optional dependencies, and objects that the user names."""

import sys

import pytest

from jnpl.internal.errors import InputError, MissingExtraError
from jnpl.internal.importing import import_by_name, require


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "some_extra", None)
    with pytest.raises(MissingExtraError, match=r'^this needs some_extra, .*: pip install "jnpl\[bench\]"$') as error:
        require("some_extra", "bench")
    assert isinstance(error.value, ImportError)


def test_an_extra_that_fails_by_itself_keeps_its_message(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "half_an_extra.py").write_text("import no_such_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency") as error:
        require("half_an_extra", "bench")
    assert not isinstance(error.value, InputError)


def test_an_object_by_name():
    assert import_by_name("os.path:join", "the function") is __import__("os").path.join
    assert import_by_name("pathlib:Path.cwd", "the function")() == __import__("pathlib").Path.cwd()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("os.path", "the reader must be named as package.module:name, got 'os.path'"),
        ("os:", "the reader must be named as package.module:name, got 'os:'"),
        (":join", "the reader must be named as package.module:name, got ':join'"),
        (".own:join", "the reader must be named as package.module:name, got '.own:join'"),
        ("os:path.nothing", "'os' has no 'path.nothing', of the reader 'os:path.nothing'"),
        ("no_such:name", "cannot import 'no_such' of the reader 'no_such:name': ModuleNotFoundError: No module named"),
    ],
)
def test_a_wrong_name_is_an_input_error(place, message):
    with pytest.raises(InputError) as error:
        import_by_name(place, "the reader")
    assert str(error.value).startswith(message)
