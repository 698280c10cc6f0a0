"""The embedding before training."""

from __future__ import annotations

import pytest

from jnpl.data.sources.arrays import from_arrays
from jnpl.training.embed_first import embed_first
from jnpl.training.reporting import Reporter


@pytest.mark.parametrize(("name", "value", "quiet"), [("LOCAL_RANK", "0", False), ("LOCAL_RANK", "1", True)])
def test_of_several_processes_one_speaks(tmp_path, monkeypatch, name, value, quiet):
    """`--devices 2` starts the second process with LOCAL_RANK=1, and no RANK."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv(name, value)
    source, report = from_arrays(["a red car", "a blue sea"] * 3, [0, 1] * 3), Reporter()
    embedded, _, lines = embed_first(source, "auto", None, {}, report, cache=tmp_path)
    assert (embedded.kind, len(lines), report.console.quiet) == ("vector", 1, quiet)
