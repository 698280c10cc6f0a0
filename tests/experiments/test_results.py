"""Files of results: whole lines, one per run, safe with several writers."""

import pytest

from jnpl.experiments import results
from jnpl.internal.errors import InputError


def line(name, **figures):
    return {"name": name, "results": figures}


def test_what_is_added_is_read_and_a_name_is_there_once(tmp_path):
    file = tmp_path / "new" / "r.jsonl"
    assert results.read(file) == {}
    assert not results.contains(file, "a")
    results.add(file, line("a", ap=0.1), line("b", ap=0.30000000000000004))
    assert results.contains(file, "a")
    results.add(file, line("a", ap=None))
    assert results.read(file) == {"a": line("a", ap=None), "b": line("b", ap=0.30000000000000004)}
    assert list(results.read(file)) == ["a", "b"]
    assert len(file.read_text().splitlines()) == 2
    assert not results.contains(file, "c")


def test_an_incomplete_last_line_is_left_out_with_a_note(tmp_path, capsys):
    file = tmp_path / "r.jsonl"
    results.add(file, line("a"), line("b"))
    file.write_text(file.read_text()[:-5])
    assert list(results.read(file)) == ["a"]
    assert capsys.readouterr().err == f"jnpl: the last line of {str(file)!r} is incomplete and is left out\n"
    results.add(file, line("c"))
    assert "is incomplete and is left out" in capsys.readouterr().err
    assert list(results.read(file)) == ["a", "c"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"name": "a"}', '{"name": "a", "results": 1}', ""])
def test_other_lines_are_refused(tmp_path, text):
    file = tmp_path / "r.jsonl"
    file.write_text('{"name": "b", "results": {}}\n' + text + "\n")
    with pytest.raises(InputError, match=r"line 2 of .*r.jsonl' is not the result of a run"):
        results.read(file)
    file.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="cannot be read as a file of results"):
        results.read(file)
