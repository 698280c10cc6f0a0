"""Texts in a column of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jnpl.data.source import InMemory, Source
from jnpl.data.sources.text_column import texts_of
from jnpl.internal.errors import InputError

TEXTS = np.array(["one", "three"], object)


def test_cells_that_hold_no_text():
    texts, unreadable = texts_of(pd.Series(["a", None, "  "]), "words", "the table")
    assert texts.tolist() == ["a", "", "  "]
    assert list(unreadable) == [1, 2]
    assert texts_of(pd.Series(["a"]), "words", "the table")[1] is None
    with pytest.raises(InputError, match="column 'words' of the table holds no text at all"):
        texts_of(pd.Series([None, ""]), "words", "the table")
    with pytest.raises(InputError, match=r"must hold texts, not float in row 1 \(counted from 0\)"):
        texts_of(pd.Series(["a", 1.5], dtype=object), "words", "the table")


def test_a_source_has_a_text_for_every_sample():
    values = InMemory(np.zeros((2, 3), np.float32))
    source = Source("toy", values, np.array([0, 1]), ("a", "b"), np.arange(2), texts=TEXTS)
    assert source.fingerprint() == Source("toy", values, source.labels, ("a", "b"), source.ids).fingerprint()
    with pytest.raises(InputError, match="toy has 2 samples but 1 texts"):
        Source("toy", values, np.array([0, 1]), ("a", "b"), np.arange(2), texts=TEXTS[:1])
