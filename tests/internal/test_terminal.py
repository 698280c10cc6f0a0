"""Nothing that a file is called reaches the terminal as a command."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnpl.internal.terminal import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat", "cat"),
        ("caf\u00e9 \u732b \U0001f408", "caf\u00e9 \u732b \U0001f408"),
        ("\x1b[2Jcat", r"\x1b[2Jcat"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2028", r"\u2028"),
        ("\udcff", r"\udcff"),
        (7, "7"),
    ],
)
def test_what_is_shown(text, shown):
    assert visible(text) == shown


@given(st.text(st.characters()))
def test_what_is_shown_is_one_line_without_controls(text):
    shown = visible(text)
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cs", "Zl", "Zp"}
    shown.encode("utf-8")
