"""Tables beyond the paper, of what was run."""

import csv
import io

from jnpl.experiments.reproduce import output


def test_when_pl_plus_begins_is_a_table_of_what_was_run(made):
    curve = [0.01 * epoch for epoch in range(125)]
    made.run("nl-plus", scale="features", curve=curve, accuracy=0.8, stages={"train": made.facts(ap=0.9)})
    made.run("jnpl-pl60", scale="features", curve=curve, accuracy=0.7, stages={"train": made.facts(ap=0.85)})
    lines = output.markdown(made.results("features"), "starts").splitlines()
    assert lines[2] == "| the first step | - | - | - | - |"
    assert lines[3] == "| the first step, a mean over the batch | - | - | - | - |"
    assert lines[5] == "| 60 % of the epochs | 74.0 | 70.0 | 0.850 | 0.70 / 0.20 |"  # NL+ after 75 epochs
    assert lines[7] == "| never (NL+ alone) | - | 80.0 | 0.900 | 0.70 / 0.20 |"


def test_heads_and_human_labels_are_tables_of_what_was_run(made):
    made.run("ce", scale="features", curve=(0.5, 0.6, 0.4), accuracy=0.41)
    made.run("ce-linear", scale="features", curve=(0.5, 0.6, 0.62), accuracy=0.61)
    made.run("ce", "human", 0.0, scale="features", data="cifar10n", classify=True, accuracy=0.75)
    lines = output.markdown(made.results("features"), "heads").splitlines()
    assert lines[2] == "| CE | MLP | 0.800 | 41.0 | 60.0 | 0.70 / 0.20 |"
    assert lines[3] == "| CE | linear | 0.800 | 61.0 | 62.0 | 0.70 / 0.20 |"
    assert lines[4] == "| NLNL | MLP | - | - | - | - |"
    text = output.markdown(made.results("features"), "human")
    assert "| method | CIFAR-10N | CIFAR-100N |" in text
    assert "| CE | 75.0 | - |" in text


def test_class_weights_are_a_table_of_what_was_run(made):
    weighted = {"train": made.facts(ap=0.7)}
    made.run("nl-plus-weights", "asymm", 0.4, scale="features", classify=True, accuracy=0.78, stages=weighted)
    made.run("jocor", "asymm", 0.4, scale="features", classify=True, accuracy=0.77)
    made.run("ce", "asymm", 0.4, scale="features", classify=True, accuracy=0.7)
    lines = output.markdown(made.results("features"), "weights").splitlines()
    assert lines[5] == "| best of the paper's methods in Table 1 | - | JoCoR 77.0 |"
    assert lines[0] == "| AP / accuracy | asymm 20 | asymm 40 |"
    assert lines[3] == "| NL+ | - | - |"
    assert lines[4] == "| NL+ with these weights | - | 0.700 / 78.0 |"


def test_more_steps_are_a_table_of_what_was_run(made):
    stages = {"train": made.facts(ap=0.9, right=0.5, wrong=0.1)}
    made.run("nl-plus-long", scale="features", data="cifar100", curve=[0.3] * 1000, accuracy=0.31, stages=stages)
    made.run("nl-plus", scale="features", curve=[0.9] * 125, accuracy=0.9)  # of CIFAR-10
    results = made.results("features")
    lines = output.markdown(results, "steps").splitlines()
    assert lines[2] == "| NL+ | - | - | - | - | - |"
    assert lines[4] == "| NL+, epochs not divided | 1000 | 0.900 | 31.0 | 30.0 | 0.50 / 0.10 |"
    (row,) = [
        row for row in csv.DictReader(io.StringIO(output.table_texts(results, "steps")["csv"])) if row["AP"] != "-"
    ]
    assert (row["filter"], row["epochs"]) == ("NL+, epochs not divided", "1000")


def test_the_stable_form_is_a_table_of_seeds_that_all_have(made):
    for seed in (1, 2):
        for number, variant in enumerate(("nlnl", "nl-plus", "jnpl", "jnpl-stable")):
            if (variant, seed) != ("jnpl-stable", 1):
                stage = {"selpl" if variant == "nlnl" else "train": made.facts(ap=0.9 + number / 100 + seed / 1000)}
                made.run(variant, "symm", 0.2, scale="features", seed=seed, accuracy=0.8, stages=stage)
    lines = output.markdown(made.results("features"), "stable").splitlines()
    assert lines[0] == "| AP / accuracy | noise | NLNL | NL+ | JNPL as written | jnpl-stable |"
    assert lines[2] == "| CIFAR-10 | symm 20 | 0.902 / 80.0 | 0.912 / 80.0 | 0.922 / 80.0 | 0.932 / 80.0 |"
    assert lines[3] == "| CIFAR-10 | symm 40 | - | - | - | - |"
