"""Foreign texts and numbers, fit to print."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnpl.outputs.report import text


@given(st.text(alphabet=st.characters(), max_size=400), st.integers(5, 200))
def test_what_is_printed_has_one_line_and_no_hidden_sign(foreign, limit):
    shown = text.plain(foreign, limit)
    shown.encode("utf-8")
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\ufeff")
    assert shown.strip()
    assert len(shown) <= 10 * limit  # a sign spelled out takes up to ten letters


def test_what_shows_stays_as_it_is():
    for name in ("cat", "café", "猫", "חתול", "a b", "\U0001f468\u200d\U0001f469", "\u0645\u06cc\u200c\u062e"):
        assert text.plain(name) == name


def test_long_texts_keep_both_ends():
    path = "/".join(f"folder{number}" for number in range(100)) + "/IMG_0001.jpg"
    short = text.plain(path, 60)
    assert len(short) == 60
    assert short.startswith("folder0/")
    assert short.endswith("/IMG_0001.jpg")


@pytest.mark.parametrize(("share", "shown"), [(0.0005, "0.1"), (0.5, "50.0"), (0.9994, "99.9"), (0.06449, "6.4")])
def test_percent(share, shown):
    assert text.percent(share) == f"{shown}\N{NO-BREAK SPACE}%"


def test_what_is_rounded_never_looks_like_nothing_or_all():
    for share in (1e-12, 4e-4, 0.9996, 1 - 1e-12):
        assert text.percent(share).strip("\N{NO-BREAK SPACE}%") not in {"0", "0.0", "100", "100.0"}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1, "1 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min"), (90_000, "25 h 0 min")],
)
def test_duration(seconds, shown):
    assert text.duration(seconds).replace("\N{NO-BREAK SPACE}", " ") == shown
