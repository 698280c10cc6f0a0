"""`jnpl corrupt`, and what every command shares: exit codes, one line for a mistake, a quick --help."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from jnpl import __version__, noise
from jnpl.cli import app as cli
from jnpl.data.label_files import with_labels
from jnpl.data.opening import open_source
from jnpl.noise import generate


@pytest.fixture
def labels(tmp_path):
    np.save(tmp_path / "labels.npy", np.tile(np.arange(10), 50))
    return tmp_path / "labels.npy"


def test_json_is_one_object_and_the_file_agrees(run, labels):
    code, out, err = run("corrupt", labels, "--kind", "symm", "--rate", 0.4, "--seed", 7, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    bundle = noise.NoisyLabels.load(facts["out"])
    assert facts == {
        "out": str(labels.with_name("labels.symm0.4.npz")),
        "samples": 500,
        "classes": 10,
        "kind": "symm",
        "rate": 0.4,
        "rate_realised": 0.4,
        "changed": 200,
        "seed": 7,
        "sha256": bundle.sha256,
    }
    assert (bundle.labels == noise.symmetric(np.load(labels), 0.4, 10, seed=7)).all()


def test_summary_for_people(run, labels):
    code, out, err = run("corrupt", labels, "--rate", 0.2, "-o", "noisy.npz")
    assert (code, err) == (0, "")
    bundle = noise.NoisyLabels.load("noisy.npz")
    for text in ("100 of 500 labels", "0.2000 of all labels", bundle.sha256, "noisy.npz", "0.80"):
        assert text in out


def test_names_in_a_table(run, tmp_path):
    (tmp_path / "t.csv").write_text("path,label\na,dog\nb,cat\nc,[b]bird[/b]\nd,dog\n")
    mapping = '{"dog": "cat"}'
    code, out, _ = run("corrupt", "t.csv", "--kind", "asymm", "--rate", 1, "--mapping", mapping, "--table", "n.csv")
    assert code == 0
    assert "[b]bird[/b]" in out
    assert pd.read_csv("n.csv")["noisy_label"].tolist() == ["cat", "cat", "[b]bird[/b]", "cat"]
    with np.load("t.asymm1.npz") as arrays:
        assert arrays["y"].tolist() == ["cat", "cat", "[b]bird[/b]", "cat"]
        assert arrays["y_true"].tolist() == ["dog", "cat", "[b]bird[/b]", "dog"]


def test_matrix_and_pairflip(run, labels):
    np.save("m.npy", np.roll(np.eye(10), 1, axis=1))
    first = json.loads(run("corrupt", labels, "--kind", "matrix", "--matrix", "m.npy", "--json")[1])
    second = json.loads(run("corrupt", labels, "--kind", "pairflip", "--rate", 1, "--json")[1])
    assert first["rate"] is None
    assert first["out"].endswith("labels.matrix.npz")
    loaded = [noise.NoisyLabels.load(facts["out"]).labels for facts in (first, second)]
    assert (loaded[0] == loaded[1]).all()


def test_instance_noise_takes_x_from_the_same_file_or_another(run, tmp_path):
    features, clean = np.arange(300.0).reshape(100, 3), np.arange(100) % 4
    np.savez(tmp_path / "d.npz", x=features, y=clean)
    np.save(tmp_path / "x.npy", features)
    first = json.loads(run("corrupt", "d.npz", "--kind", "instance", "--rate", 0.3, "--json")[1])
    options = ("--features", "x.npy", "-o", "again.npz", "--json")
    second = json.loads(run("corrupt", "d.npz", "--kind", "instance", "--rate", 0.3, *options)[1])
    assert first["sha256"] == second["sha256"]
    assert 0.15 < first["rate_realised"] < 0.45


def test_noise_invents_no_class_where_numbers_have_gaps(run, tmp_path):
    pd.DataFrame({"x": np.sqrt(np.arange(120)), "label": [1, 2, 7, 12] * 30}).to_csv(tmp_path / "rows.csv", index=False)
    code, out, err = run("corrupt", "rows.csv", "--rate", 0.5, "-o", "noisy.npz", "--table", "noisy.csv", "--json")
    assert (code, err, json.loads(out)["classes"]) == (0, "", 4)
    assert set(pd.read_csv(tmp_path / "noisy.csv")["noisy_label"]) == {1, 2, 7, 12}
    assert noise.NoisyLabels.load(tmp_path / "noisy.npz").class_names == ("1", "2", "7", "12")
    source = with_labels(open_source(tmp_path / "rows.csv"), tmp_path / "noisy.npz")
    names = [str(source.class_names[label]) for label in source.labels]
    assert names == pd.read_csv(tmp_path / "noisy.csv")["noisy_label"].astype(str).tolist()
    assert (
        json.loads(run("corrupt", "rows.csv", "--rate", 0.5, "--num-classes", 20, "-o", "all.npz", "--json")[1])[
            "classes"
        ]
        == 20
    )


def test_nothing_is_overwritten_unless_forced(run, labels, tmp_path):
    (tmp_path / "t.csv").write_text("label\n0\n1\n")
    assert run("corrupt", labels, "--rate", 0.4, "-o", "n.npz")[0] == 0
    before = (tmp_path / "n.npz").read_bytes()
    code, out, err = run("corrupt", labels, "--rate", 0.6, "-o", "n.npz")
    assert (code, out) == (2, "")
    assert "'n.npz' exists" in err
    assert (tmp_path / "n.npz").read_bytes() == before
    assert run("corrupt", labels, "--rate", 0.6, "-o", "n.npz", "--force")[0] == 0
    assert (tmp_path / "n.npz").read_bytes() != before
    assert run("corrupt", "t.csv", "--rate", 0.6, "--table", "t.csv")[0] == 2
    assert not (tmp_path / "t.symm0.6.npz").exists()


def test_unknown_command_help_and_version(run):
    code, out, err = run("corupt")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert run("--version") == (0, f"jnpl {__version__}\n", "")
    for args in ([], ["--help"], ["-h"]):
        code, out, err = run(*args)
        assert (code, err) == (0, "")
        assert [line.split()[0] for line in out.split("Commands:\n")[1].splitlines()] == list(cli.COMMANDS)
    code, out, _ = run("corrupt", "--help")
    assert code == 0
    assert "20 %" in out


def test_interrupted_is_130_and_our_own_faults_keep_their_traceback(run, labels, monkeypatch):
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    def fault(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(generate, "corrupt", interrupt)
    assert run("corrupt", labels, "--rate", 0.5)[0] == 130
    monkeypatch.setattr(generate, "corrupt", fault)
    with pytest.raises(ZeroDivisionError):
        cli.main(["corrupt", str(labels), "--rate", "0.5"])


def test_as_a_program(tmp_path):
    missing = str(tmp_path / "missing.npy")
    command = [sys.executable, "-m", "jnpl", "corrupt", missing, "--rate", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"jnpl: no such file: {missing!r}\n")


def test_help_imports_nothing_heavy():
    code = (
        "import sys, jnpl.cli.app\n"
        "try:\n    jnpl.cli.app.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'pandas', 'sklearn', 'matplotlib', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_data_set_with_a_name_and_the_run_that_takes_the_file(tmp_path, capsys):
    from jnpl.cli.app import main

    file = tmp_path / "noisy.npz"
    with pytest.raises(SystemExit) as stop:
        main(["corrupt", "digits", "--rate", "0.4", "-o", str(file), "--json"])
    assert stop.value.code in (0, None)
    assert json.loads(capsys.readouterr().out)["samples"] == 1400
    args = ["find", "digits", "-o", str(tmp_path / "run"), "--labels", str(file), "--set", "train.epochs=1", "--json"]
    with pytest.raises(SystemExit) as stop:
        main([*args, "--threads", "1"])
    assert "ap" in json.loads(capsys.readouterr().out)
