import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.checked import frame
from tests.helpers.command import jnpl

from jnpl import Findings, find_label_issues
from jnpl.data.opening import open_source
from jnpl.data.sources.votes import most_frequent, number_votes, read_votes
from jnpl.internal.errors import InputError
from jnpl.outputs.run_source import open_run_data
from jnpl.run_folder import RunFolder

FRAME = pd.DataFrame(
    {
        "length": [0.1, 2.3, 0.7, 3.1, 1.9, 0.4],
        "ann": ["cat", "dog", "cat", "dog", None, "cat"],
        "bob": ["cat", "dog", "dog", None, "dog", "cat"],
        "cy": ["dog", "dog", "cat", "eel", "dog", ""],
    }
)


def test_votes_are_read_and_counted():
    votes = read_votes({"ann": [1.0, None, 2.0], "bob": ["1", " 3 ", ""]})
    assert votes["ann"].tolist() == [1, None, 2]
    assert votes["bob"].tolist() == [1, 3, None]
    assert most_frequent(votes) == [1, 3, 2]
    assert number_votes(votes, (1, 2))["bob"].tolist() == [0, -1, -1]


def test_a_table_with_several_labels():
    source = open_source(FRAME, label_columns=["ann", "bob", "cy"])
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0, 1, 0, 1, 1, 0]
    assert source.votes["cy"].tolist() == [1, 1, 0, -1, 1, -1]  # nobody's most frequent label is eel
    assert [column["name"] for column in source.encoding["columns"]] == ["length"]
    with pytest.raises(InputError, match="exclude each other"):
        open_source(FRAME, label_columns=["ann"], label_column="bob")
    with pytest.raises(InputError, match="has no label in column 'most frequent label' of row 1"):
        open_source(
            FRAME.assign(cy=None, bob=None, ann=["cat", None, *["dog"] * 4]), label_columns=["ann", "bob", "cy"]
        )


def test_arrays_with_several_labels():
    random = np.random.default_rng(0)
    true = random.integers(0, 2, 150)
    x = random.normal(size=(150, 3)) + 3 * true[:, None]
    votes = np.stack([np.where(random.random(150) < rate, 1 - true, true) for rate in (0.1, 0.2, 0.4)], axis=1)
    findings = find_label_issues(x, votes, settings=["train.epochs=10", "verdict.trees=false"])
    assert (findings.given_labels == true).mean() > 0.95
    assert findings.annotators["annotator"].tolist() == ["3", "2", "1"]
    with pytest.raises(InputError, match="sample 0 has no label by anybody"):
        find_label_issues(x, np.full((150, 2), None, object))


def test_find_tells_of_the_annotators(capsys, tmp_path):
    rows = frame(150, 0.0)
    votes = pd.DataFrame({name: frame(150, rate)["label"] for name, rate in (("ann", 0.05), ("bob", 0.4), ("cy", 0.1))})
    votes.loc[::5, "cy"] = None
    table = pd.concat([rows[list("abcd")], votes], axis=1)
    table.to_csv(tmp_path / "votes.csv", index=False)
    given = ("--label-columns", "ann, bob,cy", "--set", "verdict.trees=false", "--json")
    code, out, _ = jnpl(capsys, "find", str(tmp_path / "votes.csv"), "-o", str(tmp_path / "run"), *given)
    facts = json.loads(out)
    assert code == 0
    assert facts["annotators"][0]["annotator"] == "bob"
    assert {row["ask"] for row in facts["ask_next"]} <= {"cy", None}
    assert "Expected to be right" in (tmp_path / "run" / "report.html").read_text()
    findings = Findings.load(tmp_path / "run")
    assert (np.array(findings.names)[findings.given_labels] == rows["true"]).mean() > 0.95
    assert open_run_data(RunFolder(tmp_path / "run").data_facts.options).votes.keys() == {"ann", "bob", "cy"}
