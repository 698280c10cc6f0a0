"""Table 2: the paper's numbers, ours, and its claim."""

import pytest

from jnpl.experiments.reproduce import output
from jnpl.experiments.reproduce.catalogue import verdicts


@pytest.mark.parametrize(("accuracy", "status"), [(0.735, "agrees"), (0.72, "disagrees")])
def test_clothing1m(made, accuracy, status):
    made.run("jnpl", "none", 0.0, data="clothing1m", scale="paper", classify=True, accuracy=accuracy)
    told = next(each for each in verdicts(made.results("paper")) if each.name == "clothing")
    assert told.status == status
    assert "74.15" in told.figures


def test_table_2_quotes_and_says_how_to_get_the_data(made):
    told = output.markdown(made.results("paper", {"clothing1m": "ask its authors"}), "table2")
    assert "| JNPL | 74.15 | - |" in told
    assert told.strip().endswith("Not run: ask its authors.")
    made.run("jnpl", "none", 0.0, data="clothing1m", scale="paper", classify=True, accuracy=0.7312)
    results = made.results("paper")
    assert "| JNPL | 74.15 | 73.1 |" in output.markdown(results, "table2")
    assert "Not run" not in output.markdown(results, "table2")
    assert "clothing1m,jnpl,1,73.12,,74.15,paper,clothing1m" in output.table_texts(results, "table2")["csv"]
    assert r"JNPL & 74.15 & 73.1 \\" in output.table_texts(results, "table2")["tex"]
