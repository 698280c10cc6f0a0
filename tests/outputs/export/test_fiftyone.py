"""FiftyOne's JSON of a data set: every field is declared, every sample has its path and its labels."""

import json

import pytest
from tests.helpers.runs import findings

from jnpl.internal.errors import InputError
from jnpl.outputs.export.fiftyone import data_set

PATHS = ["cat/a b.png", "cat/b.png", "/abs/ü.png", "d.png", "e.png", "f.png"]
OF_EVERY_SAMPLE = {"filepath", "tags"}  # fields that FiftyOne declares itself


def test_every_field_is_declared_and_every_sample_has_it():
    made = json.loads(json.dumps(data_set(findings(paths=PATHS), "run")))
    assert [each["filepath"] for each in made["samples"]] == PATHS
    assert all(set(each) - OF_EVERY_SAMPLE == set(made["sample_fields"]) for each in made["samples"])
    assert made["sample_fields"]["given_label"].endswith("EmbeddedDocumentField(fiftyone.core.labels.Classification)")
    assert made["name"] == "run"


def test_labels_and_tags_are_those_of_the_findings():
    found = findings(paths=PATHS)
    table, samples = found.table, data_set(found, "run")["samples"]
    assert [each["is_label_issue"] for each in samples] == found.is_label_issue.tolist()
    assert [bool(each["tags"]) for each in samples] == found.is_label_issue.tolist()
    assert [each["given_label"]["label"] for each in samples] == [str(name) for name in table["given_label"]]
    assert [each["suggested_label"]["label"] for each in samples] == [str(name) for name in table["suggested_label"]]
    assert samples[1]["suggested_label"]["confidence"] == pytest.approx(table["suggested_confidence"][1])
    assert all(each["given_label"]["_cls"] == "Classification" for each in samples)


def test_only_the_issues_worst_first():
    samples = data_set(findings(paths=PATHS), "run", issues=True)["samples"]
    quality = [each["label_quality"] for each in samples]
    assert samples
    assert quality == sorted(quality)
    assert all(each["is_label_issue"] for each in samples)


def test_other_data_than_images_are_refused():
    with pytest.raises(InputError, match="no image files"):
        data_set(findings(), "run")
