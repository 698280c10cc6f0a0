"""Scales: which data they need."""

from jnpl.experiments.scales import SCALES, missing


def test_missing_data_say_how_to_get_them(tmp_path):
    told = missing(SCALES["small"], tmp_path)
    assert "cifar-100-binary.tar.gz" in told["cifar100"]
    assert "https://" in told["cifar100"]
    assert "is not part of scale small" in told["clothing1m"]
    told = missing(SCALES["paper"], tmp_path)
    assert "ask its authors" in told["clothing1m"]
    assert "not part of scale tiny" in missing(SCALES["tiny"], tmp_path)["cifar100"]
