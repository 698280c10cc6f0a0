"""The numbers that the paper prints."""

import pytest

from jnpl.experiments.paper import METHODS, SETTINGS, TABLE1, TABLE2, printed

# Sums of the paper's Tables 1 and 2, made from its text and not from ours: of rows, of columns; "-" is left out.
BENCH = {
    "cifar10": (550.56, 629.56, 616.85, 611.33, 622.04, 644.56, 680.38),
    "cifar100": (359.88, 448.08, 419.70, 341.43, 341.26, 428.46, 487.47),
}
COLUMNS = {
    "cifar10": (635.49, 597.86, 505.34, 141.20, 651.75, 638.69, 617.40, 567.55),
    "cifar100": (457.20, 393.42, 281.67, 63.69, 479.97, 440.63, 388.02, 321.68),
}
CLOTHING = 647.21


def hundredths(values):
    return sum(round(100 * value) for value in values if value is not None)


def test_the_papers_table_is_whole():
    for table in TABLE1.values():
        assert list(table) == [name for name in METHODS if name != "fast"]
        assert {len(row) for row in table.values()} == {len(SETTINGS)}
    assert printed("cifar100", "jnpl", ("asymm", 0.4)) == 59.51
    assert printed("cifar10", "fast", ("asymm", 0.4)) is None


@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_every_digit_of_table_1_is_the_papers(data):
    lines = list(TABLE1[data].values())
    # In hundredths, which are whole: a wrong digit shows in its row and in its column.
    assert [hundredths(row) for row in lines] == [round(100 * value) for value in BENCH[data]]
    assert [hundredths(column) for column in zip(*lines, strict=True)] == [
        round(100 * value) for value in COLUMNS[data]
    ]
    empty = [(variant, SETTINGS[at]) for variant, row in TABLE1[data].items() for at in range(8) if row[at] is None]
    assert empty == [("nlnl", ("symm", 0.8))]


def test_every_digit_of_table_2_is_the_papers():
    names, values = zip(*TABLE2.values(), strict=True)
    assert names == (
        "CE",
        "Forward",
        "M-correction",
        "LIMIT",
        "Joint-Optim",
        "MetaCleaner",
        "MLNT",
        "PENCIL",
        METHODS["jnpl"],
    )
    assert hundredths(values) == round(100 * CLOTHING)
    assert list(values) == sorted(values)  # as the paper has them
