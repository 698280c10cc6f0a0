"""JSON of strangers: whatever is wrong with it is one line."""

import pytest

from jnpl.internal.errors import InputError
from jnpl.internal.json_files import StoredFacts, parse_json, read_facts, read_json


class Pair(StoredFacts):
    """Facts of the tests."""

    name: str
    count: int = 0


def test_what_is_right_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"name": "caf\u00e9", "more": [1]}', "utf-8")
    assert read_json(tmp_path / "a.json") == {"name": "caf\u00e9", "more": [1]}
    assert read_facts(tmp_path / "a.json", Pair) == Pair(name="caf\u00e9")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 100_000, "nul", "9" * 5000])
def test_every_failure_to_parse_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.json' cannot be read: "),
        (b"\xff", "cannot be read: "),
        (b"[" * 100_000, "cannot be read: it is nested too deeply"),
        (b"[]", "cannot be used: the whole: it must be an object"),
        (b"{}", "cannot be used: name: Field required"),
        (b'{"name": "a", "count": "many"}', "cannot be used: count: Input should be a valid integer"),
    ],
)
def test_facts_that_cannot_be_used(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_facts(tmp_path / "a.json", Pair)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.json' cannot be read: No such file"):
        read_facts(tmp_path / "none.json", Pair)
