"""What a column of a table holds."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pytest

from jnpl.data.sources.columns import distinct, group_names, kind_of, levels, values
from jnpl.internal.errors import InputError

NAN = float("nan")
DAY = dt.date(2020, 1, 1)  # 18,262 days after 1970-01-01


def objects(*cells):
    return pd.Series(list(cells), dtype=object)


@pytest.mark.parametrize(
    ("cells", "kind", "expected"),
    [
        (pd.Series([1, 2]), "number", [1, 2]),
        (pd.Series([1.5, NAN]), "number", [1.5, NAN]),
        (pd.Series(pd.array([1, None], "Int64")), "number", [1, NAN]),
        (objects(decimal.Decimal("1.5"), None), "number", [1.5, NAN]),
        (objects("1.5", " 2", ""), "number", [1.5, 2, NAN]),
        (objects(None, None), "number", [NAN, NAN]),
        (pd.Series([True, False]), "boolean", [1, 0]),
        (pd.Series(pd.array([True, None], "boolean")), "boolean", [1, NAN]),
        (objects(True, None, False), "boolean", [1, NAN, 0]),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), "date", [18262, NAN]),
        (pd.Series(pd.to_datetime(["2020-01-01T12:00+02:00"])), "date", [18262 + 10 / 24]),
        (pd.Series(["2020-01-01", None]), "date", [18262, NAN]),
        (pd.Series(["2020-01-01T06:00Z", "2020-01-01 12:00:00.5+0200"]), "date", [18262.25, 18262 + 36000.5 / 86400]),
        (pd.Series(["9999-12-31", "0001-01-01"]), "date", [2932896, -719162]),  # how some say "never"
        (objects(DAY, None), "date", [18262, NAN]),
        (objects(dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)), "date", [18262.5]),
    ],
)
def test_kinds_and_their_values(cells, kind, expected):
    assert kind_of(cells) == kind
    np.testing.assert_allclose(values(cells, kind, "x", "the table"), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pd.Series(["a", "2020-01-01"]), "category"),
        (pd.Series(["2020-02-30", "2020-02-31"]), "category"),  # no such days
        (pd.Series(["03/04/2020", "04/03/2020"]), "category"),
        (pd.Series(["1", "inf"]), "category"),
        (pd.Series(["1_000", "2_0"]), "category"),  # numbers in Python alone
        (objects(1, "a", True), "category"),
        (pd.Series(pd.Categorical([1, 2])), "category"),
        (pd.Series(pd.Categorical([True, False])), "category"),
        (objects([1], [2]), "list"),
        (objects("a", np.array([1])), "ndarray"),
        (objects({}), "dict"),
        (objects(b"a"), "bytes"),
        (objects((1, 2), "a"), "tuple"),
        (objects(DAY, "a"), "category"),
        (pd.Series([1j]), "complex128"),
    ],
)
def test_other_kinds(cells, kind):
    assert kind_of(cells) == kind


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        (objects("1", "many"), "number", r"holds 'many' in row 1 \(counted from 0\), not a finite number"),
        (pd.Series([1.0, np.inf]), "number", r"holds inf in row 1 .* not a finite number"),
        (pd.Series([1e300]), "number", r"holds 1e\+300 in row 0"),
        (pd.Series([0, 2]), "boolean", "holds .*2.* in row 1 .* not true or false"),
        (objects(None, "yes"), "boolean", "holds 'yes' in row 1 .* not true or false"),
        (pd.Series([20200101]), "date", "holds .*20200101.* in row 0 .* not a date like 2024-12-31"),
        (objects("2020-01-01", "soon"), "date", "holds 'soon' in row 1 .* not a date"),
    ],
)
def test_a_cell_of_another_kind_is_named(cells, kind, message):
    with pytest.raises(InputError, match=f"column 'x' of the table {message}"):
        values(cells, kind, "x", "the table")


@pytest.mark.parametrize("cells", [pd.Series(["True", " false", ""]), pd.Series([1, 0, None]), objects("1", "0", None)])
def test_booleans_however_they_are_written(cells):
    np.testing.assert_array_equal(values(cells, "boolean", "x", "the table"), [1, 0, NAN])


def test_levels_are_sorted_texts():
    codes, names = levels(objects("b", " a", None, "a ", "  ", 3.0, 3))
    assert names == ["3", "a", "b"]
    assert codes.tolist() == [2, 1, -1, 1, -1, 0, 0]
    codes, names = levels(pd.Series(pd.Categorical(["x", None], categories=["y", "x"])))
    assert (codes.tolist(), names) == ([0, -1], ["x"])


def test_distinct_cells():
    codes, found = distinct(objects("b", "a", "b", None, " "))
    assert found == ["b", "a"]
    assert codes.tolist() == [0, 1, 0, -1, -1]
    assert distinct(objects(None))[1] == []


def test_infinite_numbers_are_in_no_group():
    names = group_names(pd.Series([np.inf, -np.inf, *range(20)]))
    assert names[:2].tolist() == [None, None]
    assert len(set(names[2:].tolist())) == 5
