"""Labels, names, ids and paths of N samples are checked and copied; Findings and Ledger name what is wrong."""

import numpy as np
import pytest

from jnpl.internal.errors import InputError
from jnpl.judging.column_checks import checked_ids, checked_labels, checked_mask, checked_names, checked_texts


def test_labels_and_masks_are_copied():
    labels, mask = np.array([0, 1, 2], np.uint8), np.array([True, False, True])
    checked, other = checked_labels(labels, 3, 3), checked_mask(mask, 3)
    assert checked.dtype == np.int64
    labels[0], mask[0] = 2, False
    assert checked.tolist() == [0, 1, 2]
    assert other.tolist() == [True, False, True]


def test_names_are_all_texts_or_all_whole_numbers():
    assert checked_names(None, 3) is None
    assert checked_names(["a", "b"], 2) == ("a", "b")
    assert checked_names(np.array([5, 7]), 2) == (5, 7)
    assert all(type(name) is int for name in checked_names(np.array([5, 7]), 2))
    with pytest.raises(InputError, match=r"all texts or all whole numbers, not \[True, 2\]"):
        checked_names([True, 2], 2)


def test_ids_are_whole_numbers_or_texts():
    assert checked_ids(np.array([3, 1], np.uint8), 2).dtype == np.int64
    assert checked_ids([1.5, "a"], 2).tolist() == ["1.5", "a"]
    with pytest.raises(InputError, match="ids must be 2, one per sample, not 3"):
        checked_ids([1, 2, 3], 2)


def test_texts_can_be_written_as_unicode():
    texts = checked_texts("paths", ["a", "caf\udce9"], 2)
    assert texts.dtype == object
    assert [text.encode().decode() for text in texts.tolist()] == texts.tolist()
