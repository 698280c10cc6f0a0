import numpy as np
import pandas as pd
from tests.helpers.checked import frame

from jnpl import check, find_label_issues


def test_a_data_frame_keeps_its_index(checked_run):
    rows = frame(30, 0.0, 4).drop(columns="true").set_index(pd.Index(range(100, 130)))
    assert check(checked_run, rows).table.index.tolist() == list(range(100, 130))
    assert check(checked_run, rows, "label").table.equals(check(checked_run, rows).table)


def test_arrays_with_labels(tmp_path):
    random = np.random.default_rng(0)
    true = random.integers(0, 2, 200)
    x = random.normal(size=(200, 130)) + 2 * true[:, None]
    find_label_issues(x[:150], np.array(["no", "yes"])[true[:150]], settings=["train.epochs=2"], out=tmp_path / "run")
    given = true[150:].copy()
    given[4] = 1 - given[4]
    findings = check(
        tmp_path / "run", np.concatenate([x[150:], x[:1]]), np.append(np.array(["no", "yes"])[given], "no")
    )
    assert findings.worst(1).index.tolist() == [4]
    assert findings.class_names == ("no", "yes")
