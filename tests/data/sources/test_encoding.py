"""How columns of a table become features."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jnpl.data.sources.encoding import MOST_LEVELS, Encoding, lone_text
from jnpl.internal.errors import InputError

WHERE = "the table"


def fit(columns=None, **cells):
    return Encoding.fit(pd.DataFrame(cells), columns, WHERE)


def apply(encoding, **cells):
    return encoding.apply(pd.DataFrame(cells), WHERE).tolist()


def test_whole_numbers_that_a_float_cannot_tell_apart():
    encoding = fit(a=[1.0, 2.0, 4.0], b=[10**30 + at * at for at in range(3)])
    assert encoding.notes[-1] == "left out, numbers that differ beyond the 16th digit only: b"


def test_lists_where_training_had_numbers():
    encoding = fit(a=[1.0, 2.0, 4.0], b=["x", "y", "x"])
    for name in ("a", "b"):
        new = pd.DataFrame({"a": [1.0], "b": ["x"]}).assign(**{name: [np.ones(2)]})
        with pytest.raises(
            InputError, match=rf"column '{name}' of the new table holds cells of type ndarray, and held"
        ):
            encoding.apply(new, "the new table")


def test_numbers_stay_as_they_are():
    encoding = fit(a=[1, 5, 3], b=[0.5, -2.5, 1e6])
    assert encoding.names == ["a", "b"]
    assert encoding.notes == ["numbers as they are: a, b"]
    assert apply(encoding, b=[1.0], a=[2]) == [[2, 1]]  # by name, not by position
    assert encoding.apply(pd.DataFrame({"a": [1], "b": [2]}), WHERE).dtype == np.float32


@pytest.mark.parametrize(("missing", "flagged"), [(1, False), (2, False), (3, True)])
def test_missing_numbers_become_the_median(missing, flagged):
    numbers = np.arange(200.0)
    numbers[-missing:] = np.nan  # 0.5 %, 1 % and 1.5 %
    encoding = fit(a=numbers)
    median = float(np.median(numbers[:-missing]))
    assert encoding.names == (["a", "a missing"] if flagged else ["a"])
    assert apply(encoding, a=[7.0, None]) == ([[7, 0], [median, 1]] if flagged else [[7], [median]])
    share = f", and a column says which ({missing / 200:.1%})" if flagged else ""
    assert encoding.notes[0] == f"{missing} missing in column 'a', filled with its median {median:g}{share}"


def test_new_data_with_gaps_where_there_were_none():
    encoding = fit(a=[1, 5, 3], b=[True, False, True], c=["x", "y", "x"], d=["2020-01-01", "2020-01-03", "2020-01-02"])
    assert encoding.names == ["a", "b", "c=x", "c=y", "d"]
    assert apply(encoding, a=[None], b=[None], c=[None], d=[None]) == [[3, 1, 0, 0, 1]]


def test_the_notes_say_what_each_column_became():
    notes = fit(a=[1, 2, 3], b=[True, False, True], c=["x", "y", "x"], d=[5, 4, 9]).notes
    assert notes == ["numbers as they are: a, d", "true and false as 1 and 0: b", "categories as 0 and 1: c (2)"]


def test_booleans():
    encoding = fit(a=[True, False, None, True])
    assert apply(encoding, a=[True, False]) == [[1, 0], [0, 0]]
    assert apply(encoding, a=["true", None]) == [[1, 0], [1, 1]]


def test_dates_are_days_since_the_first():
    dates = ["2020-03-01T18:00", "2020-02-28T06:00", None, "2020-03-01T06:00"]
    encoding = fit(a=dates)
    assert apply(encoding, a=dates) == [[2.75, 0], [0.25, 0], [2.25, 1], [2.25, 0]]
    assert encoding.notes == [
        "1 missing in column 'a', filled with its median 2020-03-01, and a column says which (25.0%)",
        "dates as days: a",
    ]
    assert apply(encoding, a=pd.to_datetime(["2021-02-28"])) == [[366, 0]]


def test_categories_have_a_column_per_level_in_sorted_order():
    encoding = fit(town=["Ulm", "Bonn", "Ulm", " Bonn"])
    assert encoding.names == ["town=Bonn", "town=Ulm"]
    assert encoding.notes == ["categories as 0 and 1: town (2)"]
    assert apply(encoding, town=["Ulm ", "Bonn", "Rome", None]) == [[0, 1], [1, 0], [0, 0], [0, 0]]
    kinds = fit(kind=pd.Categorical([2, 1, 2, None]))
    assert kinds.names == ["kind=1", "kind=2", "kind missing"]
    assert apply(kinds, kind=[1.0, 2.0, None]) == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_rare_levels_share_a_column():
    towns = ["Ulm"] * 600 + ["Bonn"] * 390 + ["Rome"] * 9 + ["Oslo"]
    encoding = fit(town=towns)
    assert encoding.names == ["town=Bonn", "town=Ulm", "town other"]
    assert encoding.notes == ["categories as 0 and 1: town (2, rare ones together)"]
    rows = apply(encoding, town=["Bonn", "Rome", "Oslo", "Lima", None])
    assert rows == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert fit(town=[*towns, "Rome"]).names == ["town=Bonn", "town=Rome", "town=Ulm", "town other"]
    small = fit(town=["Ulm"] * 50 + ["Bonn"] * 48 + ["Rome"] * 2)  # 2 % of a small table are not rare
    assert small.names == ["town=Bonn", "town=Rome", "town=Ulm"]


def test_only_the_commonest_levels_have_a_column():
    towns = [f"t{town:03}" for town in range(70) for _ in range(11 + (town >= 30))]
    encoding = fit(town=towns)
    # The 40 larger ones, and of the equally large others those that come first.
    assert encoding.columns[0].levels == tuple(f"t{town:03}" for town in (*range(10), *range(30, 70)))
    assert len(encoding.names) == MOST_LEVELS + 1
    assert encoding.apply(pd.DataFrame({"town": towns}), WHERE).sum(axis=1).tolist() == [1] * len(towns)


def test_columns_that_say_nothing_are_left_out():
    empty = [None, None, None, " "]
    encoding = fit(a=[1, 1, 1, 1], b=["x"] * 4, c=empty, d=[1, 2, 3, 4], e=[True] * 4, f=[5, 5, 5, None])
    assert encoding.names == ["d", "f", "f missing"]
    assert encoding.notes[-1] == "left out, the same in every row or empty: a, b, c, e"
    with pytest.raises(InputError, match=r"^the table has no column to learn from: left out, the same .* empty: a$"):
        fit(a=[1, 1])
    assert fit(a=[1] * 999 + [None], d=[0, 1] * 500).names == ["d"]  # the gap would be filled with the same


@pytest.mark.parametrize("name", ["id", "Index", "UUID", "Unnamed: 0", "customer_id", "customerId", "row-ID"])
def test_columns_that_name_the_rows_are_left_out(name):
    cells = {name: [11, 12, 13], "x": [1, 3, 2]}
    encoding = fit(**cells)
    assert encoding.names == ["x"]
    left_out = f"left out because they only number or name the rows: {name}"
    hint = "(--feature-column names the columns to learn from)"
    assert encoding.notes == ["numbers as they are: x", f"{left_out} {hint}"]
    assert fit([name, "x"], **cells).names == [name, "x"]
    assert fit(**{**cells, name: [11, 12, 12]}).names == [name, "x"]
    repeated = np.arange(300) % 90 + 1000  # each customer has several rows
    assert fit(**{name: repeated, "x": repeated % 7}).names == ["x"]
    assert fit(**{name: np.where(repeated < 1005, np.nan, repeated), "x": repeated % 7}).names == ["x"]  # with gaps
    assert fit(**{name: repeated % 20, "x": repeated % 7}).names == [name, "x"]  # of 20 shops: a category


def test_whole_numbers_that_count_the_rows_are_left_out_and_others_in_order_are_told():
    rest = {"x": [3, 1, 4, 1] * 10}
    assert fit(number=range(7, 47), **rest).names == ["x"]
    assert fit(number=range(47, 7, -1), **rest).names == ["x"]
    assert fit(number=range(7, 17), x=[3, 1] * 5).names == ["number", "x"]  # of ten rows, they may be measured
    rising = fit(number=[row**2 for row in range(40)], **rest)
    assert rising.names == ["number", "x"]
    assert rising.notes == [
        "numbers as they are: number, x",
        "number: only rises or falls from row to row; if it only numbers the rows, leave it out with --exclude",
    ]
    assert fit(number=[row**2 for row in range(40)][::2] * 2, **rest).notes == ["numbers as they are: number, x"]


@pytest.mark.parametrize("name", ["paid", "heat_index", "humid", "idea"])
def test_columns_that_are_only_called_alike_are_kept(name):
    assert fit(**{name: [11, 12, 13]}).names == [name]


def test_measurements_are_no_names():
    assert fit(some_id=[0.5, 1.5, 2.5]).names == ["some_id"]


def test_words_that_are_all_different_name_the_rows():
    words, x = [f"r{row}" for row in range(100)], [0, 1] * 50
    assert fit(a=words, x=x).names == ["x"]
    with pytest.raises(InputError, match=r"'a' \(text, 100 different in 100 rows\)"):
        fit(["a", "x"], a=words, x=x)


def test_what_is_no_feature_is_named_with_the_ways_out():
    frame = {
        "file": [f"{row % 60}.JPG" for row in range(100)],
        "vector": [[1, 2]] * 100,
        "span": pd.to_timedelta(range(100), unit="s"),
        "x": [1, 2] * 50,
    }
    with pytest.raises(InputError) as told:
        fit(**frame)
    message = str(told.value)
    start = "the table has columns that cannot be features: 'file' (paths of images), 'vector' (lists), 'span' (timede"
    assert message.startswith(start)
    assert "; name the columns to learn from with --feature-column, or " in message
    for way in ("--image-column", "--embedding-column"):
        assert way in message
    assert fit(["x"], **frame).names == ["x"]


def test_texts_beside_other_columns_become_tfidf_of_their_words():
    texts = [
        f"{'late' if row % 2 else 'late late'} parcel {row} {'refund' if row % 4 == 0 else ''}" for row in range(80)
    ]
    encoding = fit(note=texts, x=[1, 2] * 40)
    assert encoding.names == ["note~refund", "x"]  # late and parcel are in every text, the numbers in one each
    assert encoding.notes == ["numbers as they are: x", "texts as their most frequent words (TF-IDF): note (1)"]
    texts = [f"{'late' if row % 2 else 'lost'} parcel{row}, {'REFUND!' if row % 4 == 0 else ''}" for row in range(80)]
    encoding = fit(note=[*texts[:-1], None], x=[1, 2] * 40)
    assert encoding.names == ["note~late", "note~lost", "note~refund", "note missing", "x"]
    known = Encoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert known == encoding
    found = apply(known, note=["late, late refund", "lost", "nothing known", None], x=[1, 1, 1, 1])
    late, refund = (1 + math.log(2)) * (math.log(79 / 39) + 1), math.log(79 / 20) + 1
    length = math.hypot(late, refund)
    assert found[0] == pytest.approx([late / length, 0, refund / length, 0, 1], rel=1e-5)
    assert found[1:] == [[0, 1, 0, 0, 1], [0, 0, 0, 0, 1], [0, 0, 0, 1, 1]]


def test_texts_alone_are_for_a_backbone():
    texts = [f"{'late' if row % 2 else 'lost'} parcel {row}" for row in range(80)]
    with pytest.raises(InputError, match=r"cannot be features: 'note' \(text\); .*--text-column"):
        fit(note=texts, number=range(80))


@pytest.mark.parametrize(
    ("more", "column"),
    [
        ({}, "note"),
        ({"id": range(80), "planet": ["earth"] * 80, "empty": [None] * 80}, "note"),
        ({"x": [1.5, 2.5] * 40}, None),
        ({"town": ["Ulm", "Bonn"] * 40}, None),
        ({"other": [f"a second text {row}" for row in range(80)]}, None),
        ({"list": [[1]] * 80}, None),
    ],
)
def test_a_lone_text(more, column):
    texts = [f"{'late' if row % 2 else 'lost'} parcel {row}" for row in range(80)]
    assert lone_text(pd.DataFrame({"note": texts, **more})) == column


def test_no_lone_text():
    assert lone_text(pd.DataFrame({"code": [f"user{row // 2}" for row in range(1000)]})) is None
    assert lone_text(pd.DataFrame({"kind": ["red car", "blue car"] * 40})) is None  # a category
    assert lone_text(pd.DataFrame({"x": range(80)})) is None


def test_codes_that_are_mostly_different_are_left_out():
    some = [f"user{row // 2}" for row in range(1000)]  # 500 different, none of them common
    with pytest.raises(
        InputError, match=r"no column to learn from: left out, .* nearly all different: a; .*--text-column"
    ):
        fit(a=some)
    assert fit(a=some, x=[1, 2] * 500).names == ["x"]
    with pytest.raises(InputError, match=r"'a' \(text, 500 different in 1,000 rows\); .*--feature-column"):
        fit(["a", "x"], a=some, x=[1, 2] * 500)
    mostly = ["none"] * 600 + [f"user{row}" for row in range(400)]  # one is common enough for most rows
    assert fit(a=mostly).names == ["a=none", "a other"]


def test_columns_that_are_absent_or_double():
    encoding = fit(a=[1, 2])
    with pytest.raises(InputError, match=r"the table has no column 'a'; its columns are b$"):
        apply(encoding, b=[1])
    twice = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(InputError, match="the table has 2 columns named 'a'"):
        encoding.apply(twice, WHERE)
    with pytest.raises(InputError, match=r"the table has no column 'b'; its columns are a$"):
        fit(["b"], a=[1, 2])


def test_new_data_of_another_kind_are_refused():
    with pytest.raises(InputError, match=r"column 'a' of the table holds 'x' in row 1 \(counted from 0\)"):
        apply(fit(a=[1, 2]), a=[1, "x"])
    with pytest.raises(InputError, match="not a date like 2024-12-31"):
        apply(fit(a=["2020-01-01", "2020-01-02"]), a=[3])


def test_columns_named_by_numbers():
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3))
    encoding = Encoding.fit(frame, ["2", "0"], WHERE)
    assert encoding.names == ["2", "0"]
    assert encoding.apply(frame, WHERE).tolist() == [[2, 0], [5, 3]]


def test_tables_of_no_rows_are_encoded_too():
    encoding = fit(a=[1, 2, 3, 3], b=["x", "y", "x", "y"])
    assert encoding.apply(pd.DataFrame({"a": [], "b": []}), WHERE).shape == (0, 3)


@pytest.mark.parametrize(
    "facts", [{}, {"columns": [{}], "notes": []}, {"columns": 3, "notes": []}, {"columns": [], "notes": None}, None]
)
def test_facts_of_something_else(facts):
    with pytest.raises(InputError, match="the stored encoding cannot be used: "):
        Encoding.from_dict(facts)


def test_facts_of_a_kind_that_there_is_not():
    facts = fit(a=[1, 2]).to_dict()
    facts["columns"][0]["kind"] = "colour"
    with pytest.raises(InputError, match=r"columns\.0\.kind.*Input should be 'number'"):
        Encoding.from_dict(facts)


CELLS = st.one_of(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-1000, 1000)), min_size=8, max_size=8),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=8, max_size=8),
    st.lists(st.one_of(st.none(), st.sampled_from(["x", "y", " z", ""])), min_size=8, max_size=8),
    st.lists(st.one_of(st.none(), st.dates()), min_size=8, max_size=8),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=4))
def test_an_encoding_comes_back_from_its_facts(columns):
    frame = pd.DataFrame({f"c{at}": pd.Series(cells, dtype=object) for at, cells in enumerate(columns)})
    try:
        encoding = Encoding.fit(frame, None, WHERE)
    except InputError:
        return  # nothing to learn from
    again = Encoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert again == encoding
    values = encoding.apply(frame, WHERE)
    np.testing.assert_array_equal(again.apply(frame, WHERE), values)
    assert values.shape == (8, len(encoding.names))
    assert np.isfinite(values).all()
    assert encoding.to_dict()["names"] == encoding.names


@settings(max_examples=30, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=3), st.permutations(range(8)))
def test_a_row_becomes_the_same_wherever_it_stands(columns, order):
    frame = pd.DataFrame({f"c{at}": pd.Series(cells, dtype=object) for at, cells in enumerate(columns)})
    try:
        encoding = Encoding.fit(frame, None, WHERE)
    except InputError:
        return  # nothing to learn from
    moved = frame.iloc[list(order)].reset_index(drop=True)
    np.testing.assert_array_equal(encoding.apply(moved, WHERE), encoding.apply(frame, WHERE)[list(order)])
    alone = np.concatenate([encoding.apply(frame.iloc[[row]], WHERE) for row in range(8)])
    np.testing.assert_array_equal(alone, encoding.apply(frame, WHERE))


def test_a_column_that_is_empty_in_new_data_alone_is_told(caplog):
    encoding = Encoding.fit(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]}), None, "old")
    assert encoding.apply(pd.DataFrame({"a": [np.nan] * 2, "b": ["x", None]}), "new").tolist()[0][0] == 2
    assert caplog.messages == ["new: column 'a' is empty in all rows, and had values in training"]
