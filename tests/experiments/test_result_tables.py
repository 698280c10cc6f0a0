"""Tables from JSON made by hand, with means worked out by hand."""

import pytest

from jnpl.experiments import result_tables as tables
from jnpl.experiments.results import add
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError

WINE = {"data": "wine", "noise": "symm", "rate": 0.4, "epochs": 3}


def put(folder, row, seed, *, aps=None, cpu=1.0, accuracy=0.5, setting=WINE, **more):
    spec = RunSpec(variant=row, seed=seed, **setting)
    aps = aps or [0.2, 0.4, 0.3]
    results = {
        "ap": aps[-1],
        "ap_curve": aps,
        "ap_peak": max(aps),
        "ap_epoch": 1 + aps.index(max(aps)),
        "curve_seconds": [0.1 * (1 + at) for at in range(len(aps))],
        "precision_at_noise": 0.25,
        "test_accuracy": accuracy,
        "cpu_seconds": cpu,
        "total_cpu_seconds": 2 * cpu,
        **more,
    }
    add(folder / "r.jsonl", {"name": spec.name, "cell": spec.model_dump(mode="json"), "results": results})


def section(text, title):
    lines = next(part for part in text.split("### ") if part.startswith(title)).splitlines()
    specs = [[spec.strip() for spec in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {specs[0][0]: specs[0][1:], **{row[0]: row[1:] for row in specs[2:]}}


def test_means_and_spreads_over_seeds(tmp_path):
    put(tmp_path, "ce", 1, aps=[0.5, 0.7, 0.6], cpu=2.0, aum_ap=0.65)
    put(tmp_path, "ce", 2, aps=[0.5, 0.9, 0.8], cpu=4.0, aum_ap=0.75)
    put(tmp_path, "nlnl", 1, aps=[0.5, 0.5, 0.9], cpu=3.0, accuracy=None)
    put(tmp_path, "nlnl", 2, aps=[0.5, 0.5, 0.7], cpu=8.0, accuracy=0.75)
    put(tmp_path, "ce", 1, setting={**WINE, "noise": "asymm"}, aps=[0.1, 0.2, 0.3], cpu=1.0)
    text = tables.markdown(tables.load(tmp_path / "r.jsonl"))
    ap = section(text, "AP of the ranking")
    assert ap["row"] == ["symm40", "asymm40"]
    assert ap["ce"] == ["0.700 ± 0.141", "0.300"]  # 0.6, 0.8: mean 0.7, deviation sqrt(0.02)
    assert ap["nlnl"] == ["0.800 ± 0.141", "-"]
    assert ap["ce, AUM"] == ["0.700 ± 0.071", "-"]
    assert ap["ce, best epoch (an oracle)"] == ["0.800 ± 0.141", "0.300"]
    assert section(text, "AP at its best")["ce"][0] == "0.800 in epoch 2; last -0.100"
    assert section(text, "Test accuracy")["nlnl"][0] == "0.750 (1 of 2)"
    cost = section(text, "CPU seconds")
    assert cost["nlnl"][0] == "1.75 ± 0.35"  # 3 / 2 and 8 / 4 of the same seeds
    assert cost["ce"] == ["1.00 ± 0.00", "1.00"]


def test_columns_that_would_have_one_name_say_what_differs(tmp_path):
    put(tmp_path, "ce", 1)
    put(tmp_path, "ce", 1, setting={**WINE, "epochs": 9})
    names = {each.setting for each in tables.load(tmp_path / "r.jsonl")}
    assert names == {"wine-symm40 (epochs 3)", "wine-symm40 (epochs 9)"}


def test_a_summary_for_programs(tmp_path):
    put(tmp_path, "ce", 1, aps=[0.1, 0.5, 0.5], cpu=2.0)
    put(tmp_path, "gce", 1, aps=[0.1, 0.5, 0.75], cpu=3.0)
    one, other = tables.summary(tables.load(tmp_path / "r.jsonl"))
    assert (one["row"], one["ap"], one["cost"], one["seeds"]) == ("ce", 0.5, 1.0, [1])
    assert (other["row"], other["ap"], other["cost"]) == ("gce", 0.75, 1.5)


def test_files_are_written(tmp_path):
    put(tmp_path, "ce", 1)
    put(tmp_path, "cleanlab", 1, aps=[0.4])
    put(tmp_path, "ce-clean", 1, aps=[float("nan")] * 3, ap=None, ap_peak=None, ap_curve=[None] * 3)
    out = tmp_path / "out"
    out.mkdir()
    text = tables.write(tmp_path / "r.jsonl", out)
    assert (out / "table.md").read_text("utf-8") == text
    assert (out / "ap-time.png").read_bytes()[:4] == b"\x89PNG"
    assert "ce-clean" not in section(text, "AP of the ranking")
    assert section(text, "Test accuracy")["ce-clean"] == ["0.500"]


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "r.jsonl"
    with pytest.raises(InputError, match="there is no result of a run in"):
        tables.write(file, tmp_path)
    file.write_text("[]\n")
    with pytest.raises(InputError, match=r"line 1 of .*r.jsonl' is not the result of a run"):
        tables.load(file)
    for cell in ("{}", "5"):
        file.write_text(f'{{"name": "x", "cell": {cell}, "results": {{}}}}\n')
        with pytest.raises(InputError, match=r"'x' in .*r.jsonl' is not the result of a run of jnpl bench"):
            tables.load(file)
