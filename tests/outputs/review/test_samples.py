"""What the page shows of a sample."""

import pandas as pd

from jnpl.data.opening import open_source
from jnpl.outputs.review.samples import Samples
from jnpl.run_folder import RunFolder


def test_a_cell_without_a_value_is_empty(make_run, tmp_path):
    frame = pd.DataFrame({"size": pd.array([3, None, 5, 7] * 5, "Int64"), "label": ["cat", "dog"] * 10})
    frame.to_parquet(tmp_path / "table.parquet")  # remembers the type of pandas, whose missing value is NA
    run = make_run(samples=20)
    samples = Samples(RunFolder(run), None)
    samples.source = open_source(tmp_path / "table.parquet")
    assert [samples.content(at)["cells"] for at in range(2)] == [[("size", "3")], [("size", "")]]
