"""`jnpl train` in the folder of a finished `jnpl find`, and with the labels that `jnpl apply` wrote."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers import quick

from jnpl.data.label_files import with_labels
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError
from jnpl.judging import Findings
from jnpl.outputs.corrections import correct
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.load import load_recipe, parse_changes
from jnpl.training.reporting import Reporter

SMALL = ("train.epochs=3", "train.batch_size=32", "train.lr=0.05", "engine.accelerator=cpu", "engine.workers=0")


def run(out, *changes, recipe="fast", every=None, **options):
    settings = load_recipe(recipe, parse_changes([*SMALL, *changes]))
    return run_recipe(
        quick.data("vector"),
        settings,
        out,
        seed=0,
        every=every or CheckpointInterval(),
        strict=False,
        report=Reporter(),
        **options,
    ).results


def test_a_finished_find_goes_on_to_train_as_if_at_once(tmp_path):
    found = run(tmp_path / "two steps")
    later = run(tmp_path / "two steps", classify=True)
    at_once = run(tmp_path / "at once", classify=True)
    assert later["epochs"] > found["epochs"]
    for file in ("model.safetensors", "findings.parquet", "metrics.jsonl"):
        assert (tmp_path / "two steps" / file).read_bytes() == (tmp_path / "at once" / file).read_bytes(), file
    assert {**later, "run": 0, "seconds": 0} == {**at_once, "run": 0, "seconds": 0}
    assert json.loads((tmp_path / "two steps" / "run.json").read_text())["status"] == "finished"


def test_the_second_part_is_free_until_it_has_begun(tmp_path):
    run(tmp_path / "run", "pseudo.stretch=2.0")
    told = run(tmp_path / "run", "pseudo.stretch=1.0", classify=True)
    assert told["epochs"] == 3 + 3


def test_a_find_that_never_saves_has_nothing_to_go_on_from(tmp_path):
    run(tmp_path / "run", every=CheckpointInterval(seconds=None))
    with pytest.raises(InputError, match=r"holds a run with no pseudo-labels \(jnpl find\); name another folder"):
        run(tmp_path / "run", classify=True)


def test_other_settings_do_not_go_on(tmp_path):
    run(tmp_path / "run")
    with pytest.raises(InputError, match=r"train\.lr = 0\.05, not 0\.07"):
        run(tmp_path / "run", "train.lr=0.07", classify=True)
    run(tmp_path / "run", classify=True)
    with pytest.raises(InputError, match="holds a run with pseudo-labels"):  # and never back
        run(tmp_path / "run")


def a_source(**changes):
    labels = ["cat", "dog", "dog", "cat", "eel", "eel"]
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    return from_arrays(x, labels, **changes)


def table(path, rows):
    pd.DataFrame(rows, columns=["id", "label"]).to_csv(path, index=False)
    return path


def test_labels_of_a_table_and_samples_that_it_leaves_out(tmp_path):
    source = a_source()
    rows = [(number, "eel") for number in (5, 1, 3)]
    changed = with_labels(source, table(tmp_path / "labels.csv", rows))
    assert changed.ids.tolist() == [1, 3, 5]
    assert changed.labels.tolist() == [2, 2, 2]
    np.testing.assert_array_equal(changed.inputs.values, source.inputs.values[[1, 3, 5]])
    assert changed.class_names == source.class_names
    assert changed.fingerprint() != source.fingerprint()


def test_what_apply_wrote_is_read_back(tmp_path):
    source = a_source()
    sure = 0.8 * np.eye(3)[[1, 1, 1, 0, 2, 2]] + 0.2 / 3
    findings = Findings.from_probs(sure, source.labels, class_names=source.class_names, threshold=0.5)
    for name in ("corrected.csv", "corrected.parquet", "corrected.json"):
        with correct(findings).writing(tmp_path / name):
            pass
        changed = with_labels(source, tmp_path / name)
        assert changed.labels.tolist() == [1, 1, 1, 0, 2, 2]
        assert len(changed) == 6


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(9, "cat")], r"names id '9', which is not in arrays: an id is one like '0'"),
        ([(1, "cow")], r"names '1' with the label 'cow', which is no class of arrays: cat, dog, eel"),
        ([], r"names no samples; it needs rows of id and label"),
    ],
)
def test_a_table_that_does_not_fit(tmp_path, rows, told):
    with pytest.raises(InputError, match=told):
        with_labels(a_source(), table(tmp_path / "labels.csv", rows))
