"""Thousands of damaged and forged files for the readers of foreign bytes; `benchmarks/fuzz.py` tries many more."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.helpers import fuzzing

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a time limit by signals of POSIX")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", fuzzing.READERS)
def test_whatever_is_in_a_file_is_read_or_refused(name, tmp_path):
    reader, random = fuzzing.READERS[name], Random(0)
    good = reader.good(tmp_path)
    assert reader.try_one(tmp_path, good) or name in fuzzing.REFUSED
    refused = 0
    for _ in range(80):
        content = fuzzing.variant(reader, good, random)
        try:
            refused += not reader.try_one(tmp_path, content)
        except Exception as error:  # noqa: BLE001 - what is looked for
            pytest.fail(f"{name}, {content[:200]!r}: {type(error).__name__}: {error}")
    assert refused or name in fuzzing.LENIENT
