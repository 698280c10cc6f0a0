"""The page on the noise rate agrees with the committed results, and labels by rules are what they say."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers.scripts import load_script


@pytest.fixture(scope="module")
def noise_rate():
    return load_script("benchmarks/noise_rate.py")


def test_the_page_is_that_of_the_results(noise_rate):
    assert noise_rate.PAGE.read_text("utf-8") == noise_rate.page(noise_rate.RESULTS)


def test_questions_are_labelled_by_their_first_words(noise_rate):
    texts = [
        "who wrote it ?",
        "where is it ?",
        "how many are there ?",
        "what is nato an acronym of ?",
        "how is it ?",
        "x ?",
    ]
    names = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    source = SimpleNamespace(class_names=names, texts=np.array(texts, object))
    assert [names[label] for label in noise_rate.by_words(source)] == ["HUM", "LOC", "NUM", "ABBR", "DESC", "ENTY"]
