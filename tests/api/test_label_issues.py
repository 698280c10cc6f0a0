"""The whole in one call."""

import numpy as np
import pandas as pd
import pytest
import torch

import jnpl
from jnpl.internal.errors import InputError
from jnpl.judging.posterior import posterior
from jnpl.outputs.run_source import open_run_data
from jnpl.run_folder import RunFolder

QUICK = ["train.epochs=3"]


@pytest.fixture(scope="module")
def toy():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 90)
    x = (random.normal(size=(90, 4)) + 3 * np.eye(4)[labels]).astype(np.float32)
    return x, jnpl.noise.symmetric(labels, 0.2, 3, seed=0), labels


def test_all_forms_of_data_give_the_same_findings(toy, tmp_path):
    x, y, _ = toy
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame.assign(label=y).to_csv(tmp_path / "t.csv", index=False)
    np.savez(tmp_path / "t.npz", x=x, y=y)
    ways = [
        jnpl.find_label_issues(x, y, settings=QUICK),
        jnpl.find_label_issues(torch.from_numpy(x), torch.from_numpy(y), settings=QUICK),
        jnpl.find_label_issues(x.tolist(), y.tolist(), settings=QUICK),
        jnpl.find_label_issues(frame, y, settings=QUICK),
        jnpl.find_label_issues(frame.assign(kind=y), label_column="kind", settings=QUICK),
        jnpl.find_label_issues((x, y), settings=QUICK),
        jnpl.find_label_issues(tmp_path / "t.npz", settings=QUICK),
        jnpl.find_label_issues(tmp_path / "t.csv", settings=QUICK),
        jnpl.find_label_issues([(row, int(label)) for row, label in zip(x, y, strict=True)], settings=QUICK),
    ]
    for found in ways[1:]:
        assert found.label_quality.tolist() == ways[0].label_quality.tolist()
        assert found.suggested_labels.tolist() == ways[0].suggested_labels.tolist()


def test_wrong_labels_are_found(toy, all_trees):
    x, y, true = toy
    found = jnpl.find_label_issues(x, y)
    assert jnpl.metrics.average_precision(found.label_quality, y != true) > 0.9


def test_names_of_classes_and_another_method(toy):
    x, y, _ = toy
    names = ["ant", "bee", "cow"]
    found = jnpl.find_label_issues(x, [names[label] for label in y], class_names=names, settings=QUICK)
    assert set(found.table["given_label"]) == set(names)
    numbered = jnpl.find_label_issues(pd.DataFrame(x), y, class_names=names, settings=QUICK)
    assert numbered.class_names == ("ant", "bee", "cow")
    other = jnpl.find_label_issues(x, y, method="ce", settings=QUICK)
    assert other.label_quality.tolist() != numbered.label_quality.tolist()


def test_a_run_stays_only_where_it_is_told_to(toy, tmp_path, capsys):
    x, y, _ = toy
    jnpl.find_label_issues(x, y, settings=QUICK, out=tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert (tmp_path / "run" / "data.json").is_file()
    assert jnpl.load(tmp_path / "run").predict(x).shape == (90,)
    assert capsys.readouterr().err == ""
    jnpl.find_label_issues(x, y, settings=QUICK, verbose=True)
    assert "epoch 3/3" in capsys.readouterr().err


def test_mistakes(toy):
    x, y, _ = toy
    with pytest.raises(InputError, match="noise has no meaning for arrays"):
        jnpl.find_label_issues(x, y, noise="worse")
    with pytest.raises(InputError, match="class_names go with labels"):
        jnpl.find_label_issues((x, y), class_names=["a", "b", "c"])
    with pytest.raises(InputError, match="given twice"):
        jnpl.find_label_issues(pd.DataFrame({"given label": y}), y)
    with pytest.raises(InputError, match="as labels, and by label_column"):
        jnpl.find_label_issues(pd.DataFrame({"a": y, "kind": y}), y, label_column="kind")
    with pytest.raises(InputError, match="3 labels do not fit the 90 rows"):
        jnpl.find_label_issues(pd.DataFrame(x), y[:3])
    with pytest.raises(InputError, match=r"a list of changes, such as \['train.epochs=2'\]"):
        jnpl.find_label_issues(x, y, settings="train.epochs=2")
    with pytest.raises(InputError, match="no recipe 'fats'"):
        jnpl.find_label_issues(x, y, recipe="fats")


def test_scores_of_labels():
    random = np.random.default_rng(0)
    probs = random.dirichlet(np.ones(3), 50)
    labels = random.integers(0, 3, 50)
    each = np.arange(50)
    np.testing.assert_array_equal(jnpl.score_labels(labels, probs, score="probability"), probs[each, labels])
    np.testing.assert_array_equal(jnpl.score_labels(labels, probs), posterior(probs, labels).probs[each, labels])
    with pytest.raises(InputError, match="score must be"):
        jnpl.score_labels(labels, probs, score="margin")
    with pytest.raises(InputError, match="sum to 1"):
        jnpl.score_labels(labels, 2 * probs)


def test_an_order_of_classes_holds_for_true_labels_too(toy):
    x, _, labels = toy
    names = np.array(["c", "a", "b"])[labels]
    frame = pd.DataFrame(x, columns=list("abcd")).assign(true=names)
    source = jnpl.api.label_issues.make_source(frame, names.tolist(), ["c", "a", "b"], {"true_label_column": "true"})
    np.testing.assert_array_equal(source.labels, labels)
    np.testing.assert_array_equal(source.true_labels, labels)
    assert source.class_names == ("c", "a", "b")


def people(rows=90):
    """A table as people have them: an index of its own, categories, a gap, texts, an id."""
    old = np.arange(rows) % 2 == 1
    frame = pd.DataFrame(
        {
            "id": np.arange(rows) + 500,
            "age": np.where(old, 60.0, 20.0) + np.arange(rows) % 7,
            "town": np.where(np.arange(rows) % 3 == 0, "Ulm", "Bonn"),
            "note": [f"visit {row} {'grey' if each else 'young'} person" for row, each in enumerate(old)],
            "group": np.where(old, "old", "young"),
        },
        index=[f"p{row}" for row in range(rows)],
    )
    frame.loc["p8", "age"] = np.nan
    frame.loc["p7", "group"] = "young"  # wrong
    return frame


def test_a_frame_with_the_name_of_its_label_column():
    frame = people()
    found = jnpl.find_label_issues(frame, "group", settings=["train.epochs=20"])
    assert found.worst(1).index.tolist() == ["p7"]
    assert frame.loc[found.worst(1).index, "id"].tolist() == [507]
    assert found.table.index.equals(frame.index)
    assert len(frame[found.table.is_label_issue]) == found.is_label_issue.sum()  # pandas aligns by the index
    same = jnpl.find_label_issues(frame, label_column="group", settings=["train.epochs=20"])
    assert found == same
    with pytest.raises(InputError, match="the label column is given twice"):
        jnpl.find_label_issues(frame, "group", label_column="town")
    with pytest.raises(InputError, match="no column 'gruop'; its columns are id, age"):
        jnpl.find_label_issues(frame, "gruop")


def test_the_index_of_a_frame_stays_in_order_with_a_folder_and_without_some_rows(tmp_path):
    frame = people()
    frame.loc["p3", "group"] = None
    found = jnpl.find_label_issues(frame, "group", skip_unlabelled=True, settings=QUICK, out=tmp_path / "run")
    assert found.table.index.tolist() == frame.index.drop("p3").tolist()
    assert found.ids.tolist() == [row for row in range(90) if row != 3]
    apart = jnpl.find_label_issues(frame.drop(columns="group"), people()["group"], settings=QUICK)
    assert apart.table.index.equals(frame.index)


def test_a_misspelt_option_is_named(toy, tmp_path):
    x, y, _ = toy
    pd.DataFrame(x, columns=list("abcd")).assign(kind=y).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"no option 'label_colum' for opening data; did you mean 'label_column'\?"):
        jnpl.find_label_issues(tmp_path / "t.csv", label_colum="kind")


def test_data_sets_of_items_are_told_apart(toy, tmp_path):
    x, y, _ = toy
    items = [(row, int(label)) for row, label in zip(x, y, strict=True)]
    others = [(row + 1, label) for row, label in items]
    jnpl.find_label_issues(items, settings=QUICK, out=tmp_path / "run")
    with pytest.raises(InputError, match="other data"):
        jnpl.find_label_issues(others, settings=QUICK, out=tmp_path / "run")


def test_a_name_stays_a_name_where_a_folder_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    jnpl.find_label_issues("digits", settings=["train.epochs=1"], out=tmp_path / "run")
    assert len(open_run_data(RunFolder(tmp_path / "run").data_facts.options)) == 1400


def test_validation_data_are_held_out_as_by_the_command():
    with pytest.raises(InputError, match="val_size has no meaning for digits"):
        jnpl.find_label_issues("digits", settings=["data.val_size=5"])
