"""JNPLClassifier: scikit-learn's own checks, and what they do not ask."""

import pickle
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers.runs import photos
from torch import nn

from jnpl import Findings, find_label_issues, metrics, noise
from jnpl.api.estimator import JNPLClassifier
from jnpl.internal.errors import InputError
from jnpl.models.small import mlp

INHERENT = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "two copies of a sample meet other samples in their batches, and "
    "draw twice whether PL+ takes them (Algorithm 1), where one sample of weight 2 draws once; scikit-learn expects as "
    "much of its own estimators that learn from shuffled batches",
)


@parametrize_with_checks([JNPLClassifier(epochs=5)], expected_failed_checks=lambda _: INHERENT)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def blobs(samples=120, rate=0.0, seed=0, classes=3):
    """Inputs, given and true labels."""
    x, y = make_blobs(samples, centers=4 * np.eye(classes, 4), random_state=seed)
    return x, noise.symmetric(y, rate, classes, seed=seed) if rate else y, y


def quick(**changes):
    return JNPLClassifier(**{"epochs": 3, "batch_size": 32, "random_state": 0, "device": "cpu", **changes})


def same_network(first, second):
    ours, theirs = first.module_.state_dict(), second.module_.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


# What it is for


def test_it_finds_wrong_labels_and_is_not_fooled(all_trees):
    x, y = load_digits(return_X_y=True)
    given = noise.symmetric(y[:1200], 0.4, 10, seed=0)
    model = JNPLClassifier(epochs=12, random_state=0).fit(x[:1200], given)
    assert metrics.average_precision(model.label_quality_, given != y[:1200]) > 0.95
    assert model.score(x[1200:], y[1200:]) > 0.85  # writers of their own; given labels are right in 60 %
    assert 0.3 < model.findings_.noise_rate < 0.5
    issues = model.findings_.is_label_issue
    assert (model.findings_.suggested_labels[issues] == y[:1200][issues]).mean() > 0.85


def test_what_a_fit_leaves():
    x, given, _ = blobs(rate=0.2)
    model = quick().fit(x, given)
    assert model.classes_.tolist() == [0, 1, 2]
    assert isinstance(model.findings_, Findings)
    assert model.findings_.ids.tolist() == list(range(120))
    assert model.findings_.given_labels.tolist() == given.tolist()
    np.testing.assert_array_equal(model.label_quality_, model.findings_.label_quality)
    assert [line["epoch"] for line in model.history_] == list(range(12))
    assert [line["stage"] for line in model.history_] == ["train"] * 3 + ["pseudo"] * 9  # three times as many
    assert model.n_iter_ == 12
    assert model.n_features_in_ == 4
    probs = model.predict_proba(x)
    assert probs.shape == (120, 3)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-6)
    assert (model.predict(x) == probs.argmax(1)).all()


def test_it_finds_what_find_label_issues_finds():
    x, given, _ = blobs(rate=0.2)
    model = JNPLClassifier(epochs=3, random_state=5, device="cpu").fit(x, given)
    settings = ["train.epochs=3", "engine.accelerator=cpu"]
    assert model.findings_ == find_label_issues(x, given, settings=settings, seed=5)


def test_without_pseudo_labels_the_filter_is_the_classifier():
    x, given, _ = blobs(rate=0.2)
    model, both = quick(pseudo_label=False).fit(x, given), quick().fit(x, given)
    assert model.n_iter_ == 3
    assert model.findings_ == both.findings_  # pseudo-labels come after them
    assert not same_network(model, both)


def test_settings_reach_the_engine():
    x, y, _ = blobs()
    model = quick(lr=0.025, settings=("train.schedule=constant", "train.epochs=50")).fit(x, y)
    assert [line["lr"] for line in model.history_] == [0.025] * 12  # epochs= goes before settings
    assert "nl_plus" not in quick(method="ce").fit(x, y).history_[0]
    assert quick(method="ce").fit(x, y).n_iter_ == 3  # it has no second part


# Labels and inputs


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["ant", "bee", "cow"], ("ant", "bee", "cow")),
        ([-1, 5, 7], (-1, 5, 7)),
        ([1.0, 2.0, 3.0], (1, 2, 3)),
        (np.array(["ant", "bee", "cow"], object), ("ant", "bee", "cow")),
        ([False, True], ("False", "True")),
    ],
)
def test_labels_of_any_kind(names, told):
    x, y, _ = blobs(classes=len(names))
    labels = np.asarray(names)[y]
    model = quick().fit(x, labels)
    assert model.classes_.tolist() == list(names)
    assert model.findings_.class_names == told
    predicted = model.predict(x)
    assert predicted.dtype == labels.dtype
    assert (predicted == labels).mean() > 0.8


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_labels_that_are_identifiers_are_refused():
    with pytest.raises(InputError, match="120 different labels for 120 samples: they look like identifiers"):
        quick().fit(blobs()[0], np.arange(120))


def test_data_frames():
    x, y, _ = blobs()
    frame = pd.DataFrame(x, columns=list("abcd"))
    model = quick().fit(frame, pd.Series(y).map({0: "x", 1: "y", 2: "z"}))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert set(model.predict(frame)) <= {"x", "y", "z"}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "other"}))


def test_a_sparse_matrix_of_words_in_a_pipeline():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 120)
    words = np.array([[f"cat{at}" for at in range(200)], [f"dog{at}" for at in range(200)]])
    texts = [" ".join(random.choice(words[label], 30)) for label in y]
    model = make_pipeline(TfidfVectorizer(), quick(epochs=10)).fit(texts, y)
    assert model[-1].sparse_basis_.shape == (400, 119 + 1)
    assert (model.predict(texts) == y).mean() > 0.95
    dense = model[0].transform(texts).toarray()
    np.testing.assert_array_equal(model[-1].predict(dense), model.predict(texts))


def test_paths_of_images_and_texts_in_a_list_or_a_lone_column(tmp_path):
    folder = photos(tmp_path / "photos", each=8)
    paths = sorted(folder.rglob("*.png"))
    y = [path.parent.name for path in paths]
    model = quick(epochs=10, backbone="efficientnet-lite0", cache=tmp_path / "cache").fit(
        paths, y, [0.0] + [1.0] * (len(y) - 1)
    )
    assert model.findings_.table["id"].tolist() == list(range(1, len(y)))
    expected = model.predict(paths).tolist()
    assert model.predict(pd.DataFrame({"where": map(str, paths)})).tolist() == expected
    assert model.predict(np.stack([np.asarray(Image.open(path)) for path in paths])).tolist() == expected
    with pytest.raises(InputError, match="X must be a list of images, as it was fitted with"):
        model.predict(["a text", "another text"])
    with pytest.raises(InputError, match=r"X names images that are not there, first 'no\.png'"):
        model.predict(["no.png"])
    texts = pd.DataFrame({"note": [f"{name} number {at}" for at, name in enumerate(y)]})
    model = quick(epochs=10, backbone="tfidf").fit(texts, y)
    assert model.predict(texts).tolist() == model.predict(texts["note"].tolist()).tolist()


def test_memory_that_must_not_be_written_to(request):
    request.addfinalizer(lambda: torch.set_warn_always(False))
    torch.set_warn_always(True)  # PyTorch warns of it, as a rule once per process
    x, y, _ = blobs()
    x = x.astype(np.float32)
    x.flags.writeable = False
    model = quick().fit(x, y)
    assert model.predict(x).shape == (120,)


def test_tensors():
    x, y, _ = blobs()
    model = quick().fit(torch.tensor(x), torch.tensor(y))
    np.testing.assert_array_equal(model.predict(torch.tensor(x)), quick().fit(x, y).predict(x))


# Images and networks of one's own


def pictures(samples=40, side=8):
    """Left or right half bright, (N, H, W, 3) bytes."""
    y = np.arange(samples) % 2
    x = np.random.default_rng(0).integers(0, 80, (samples, side, side, 3)).astype(np.uint8)
    x[y == 0, :, : side // 2] += 150
    x[y == 1, :, side // 2 :] += 150
    return x, y


STILL = ("data.flip=false", "data.padding=0")


def test_images_in_any_form_are_the_same_images():
    x, y = pictures()
    model = quick(settings=STILL, epochs=2).fit(x, y)
    assert model.predict_proba(x).shape == (40, 2)
    floats = quick(settings=STILL, epochs=2).fit(x / 255, y)
    first = quick(settings=STILL, epochs=2).fit(x.transpose(0, 3, 1, 2), y)
    assert same_network(model, floats)
    assert same_network(model, first)
    with pytest.raises(ValueError, match=r"samples of shape \(8, 6, 3\), but was fitted with \(8, 8, 3\)"):
        model.predict(x[:, :, :6])


def test_grey_images_have_three_axes():
    x, y = pictures()
    model = quick(settings=STILL, epochs=2).fit(x[..., 0], y)
    assert model.input_shape_ == (8, 8, 1)
    assert model.predict(x[..., 0]).shape == (40,)


def test_networks_by_name():
    x, y = pictures()
    model = quick(module="mlp", settings=STILL, epochs=15).fit(x, y)
    assert not any(isinstance(layer, nn.Conv2d) for layer in model.module_.modules())
    assert model.score(x, y) > 0.9
    with pytest.raises(InputError, match="unknown model 'mpl'"):
        quick(module="mpl").fit(x, y)


class Narrow(nn.Module):
    """A network of one's own, known to pickle by its name."""

    def __init__(self, num_classes, input_shape):
        super().__init__()
        self.layer = nn.Linear(input_shape[0], num_classes)

    def forward(self, x):
        return self.layer(x)


def test_a_factory_of_ones_own():
    x, y, _ = blobs()
    model = clone(quick(module=Narrow)).fit(x, y)
    assert isinstance(model.module_, Narrow)
    assert model.module_.layer.weight.shape == (3, 4)


def test_a_module_is_copied_and_gives_its_weights():
    x, y, _ = blobs()
    mine = mlp(4, 3, hidden=(8,))
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    model = quick(module=mine, lr=1e-9, epochs=1).fit(x, y)
    for name, value in mine.state_dict().items():
        assert torch.equal(value, before[name])
        torch.testing.assert_close(model.module_.state_dict()[name], value, atol=1e-6, rtol=0)  # hardly moved
    assert model.module_ is not mine
    quick(module=mine).fit(x, y)
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())


def test_modules_that_do_not_fit():
    x, y, _ = blobs()
    with pytest.raises(InputError, match=r"the model Sequential must give \(2, 3\)"):
        quick(module=mlp(4, 7)).fit(x, y)
    with pytest.raises(InputError, match="co-teaching needs two networks that differ: give a factory"):
        quick(module=mlp(4, 3), method="co-teaching", settings=("method.noise_rate=0.2",)).fit(x, y)
    with pytest.raises(InputError, match="elr-plus needs two networks that differ: give a factory"):
        quick(module=mlp(4, 3), method="elr-plus").fit(x, y)


# Randomness


def test_the_same_seed_gives_the_same_bits():
    x, given, _ = blobs(rate=0.2)
    first, second, other = quick().fit(x, given), quick().fit(x, given), quick(random_state=1).fit(x, given)
    assert same_network(first, second)
    assert first.findings_ == second.findings_
    assert first.history_ == second.history_
    np.testing.assert_array_equal(first.predict_proba(x), second.predict_proba(x))
    assert not same_network(first, other)
    drawn = quick(random_state=np.random.RandomState(0))
    assert same_network(clone(drawn).fit(x, given), clone(drawn).fit(x, given))
    assert not same_network(drawn.fit(x, given), clone(drawn).fit(x, given))  # the state has moved on


def test_nobody_elses_draws_are_touched():
    x, y, _ = blobs()
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002 - the global state is the point
    random.seed(7)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    quick().fit(x, y).predict(x)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    assert random.getstate() == states[2]


def test_threads_do_not_disturb_each_other():
    x, given, _ = blobs(rate=0.2)
    alone = [quick(random_state=seed, epochs=2).fit(x, given) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda seed: quick(random_state=seed, epochs=2).fit(x, given), range(3)))
    assert all(same_network(one, other) for one, other in zip(alone, together, strict=True))


# Weights of samples


def test_weight_zero_is_leaving_out():
    x, given, _ = blobs(rate=0.2)
    weights = np.where(np.arange(120) % 3 == 0, 0.0, 1.0)
    kept = weights > 0
    model, less = quick().fit(x, given, sample_weight=weights), quick().fit(x[kept], given[kept])
    assert same_network(model, less)
    assert model.history_ == less.history_
    assert model.findings_.ids.tolist() == np.flatnonzero(kept).tolist()
    np.testing.assert_array_equal(model.label_quality_[kept], less.label_quality_)
    assert np.isnan(model.label_quality_[~kept]).all()
    some = np.where(kept, np.arange(120) + 1.0, 0.0)
    assert same_network(
        quick().fit(x, given, sample_weight=some), quick().fit(x[kept], given[kept], sample_weight=some[kept])
    )


def test_a_class_without_weight_is_no_class():
    x, y, _ = blobs()
    model = quick().fit(x, y, sample_weight=(y != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    with pytest.raises(ValueError, match="1 class"):
        quick().fit(x, y, sample_weight=(y == 1).astype(float))


def test_equal_weights_are_no_weights_and_their_mean_does_not_matter():
    x, given, _ = blobs(rate=0.2)
    assert same_network(quick().fit(x, given), quick().fit(x, given, sample_weight=np.full(120, 0.3)))
    weights = 2.0 ** (np.arange(120) % 3)
    model = quick().fit(x, given, sample_weight=weights)
    assert same_network(model, quick().fit(x, given, sample_weight=weights * 64))
    assert not same_network(model, quick().fit(x, given))


def test_weights_decide_between_labels_that_contradict_each_other():
    x = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 2, axis=0)
    y = np.tile([0, 1], 30)  # every point carries both labels
    plain = ('method.class_weight="none"',)  # they would make the sum of both classes' weights equal again
    for heavy in (0, 1):
        weights = np.where(y == heavy, 9.0, 1.0)
        model = quick(epochs=10, pseudo_label=False, settings=plain).fit(x, y, sample_weight=weights)
        assert (model.predict(x) == heavy).mean() > 0.9


def test_balanced_weights_and_class_weights_are_not_counted_twice():
    x, y, _ = blobs()
    few = (y != 2) | (np.arange(120) % 6 == 0)
    x, y = x[few], y[few]
    model = quick().fit(x, y, sample_weight=compute_sample_weight("balanced", y))
    shares = np.bincount(model.predict(x), minlength=3) / len(y)
    assert np.abs(shares - np.bincount(y) / len(y)).max() < 0.1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(120, -1.0), "must not be negative"),
        (np.zeros(120), "zero|0 for all samples"),
        (np.ones(119), "sample_weight"),
        (np.full(120, np.nan), "NaN"),
    ],
)
def test_weights_that_are_none(weights, message):
    x, y, _ = blobs()
    with pytest.raises(ValueError, match=message):
        quick().fit(x, y, sample_weight=weights)


def test_methods_that_do_not_weigh_say_so():
    x, y, _ = blobs()
    with pytest.raises(InputError, match=r"ce does not support sample weights; jnpl, jnpl-stable, refined-nl do"):
        quick(method="ce").fit(x, y, sample_weight=np.arange(120) + 1.0)
    assert same_network(quick(method="ce").fit(x, y, sample_weight=np.ones(120)), quick(method="ce").fit(x, y))


# Company


def test_pipeline_search_and_cross_validation():
    x, given, y = blobs(rate=0.2)
    pipeline = make_pipeline(StandardScaler(), quick())
    probs = cross_val_predict(pipeline, x, given, cv=2, method="predict_proba")
    assert metrics.average_precision(probs[np.arange(120), given], given != y) > 0.7
    search = GridSearchCV(pipeline, {"jnplclassifier__lr": [1e-6, 0.1]}, cv=2).fit(x, given)
    assert search.best_params_ == {"jnplclassifier__lr": 0.1}
    assert search.best_estimator_["jnplclassifier"].findings_.label_quality.shape == (120,)
    weighted = pipeline.fit(x, given, jnplclassifier__sample_weight=np.arange(120))
    assert np.isnan(weighted["jnplclassifier"].label_quality_[0])


READ = """
import pickle, joblib, numpy as np
x = np.load("x.npy")
for how, model in ("pickle", pickle.load(open("model.pickle", "rb"))), ("joblib", joblib.load("model.joblib")):
    np.save(f"{how}.npy", model.predict_proba(x))
    print(model.findings_.is_label_issue.sum(), model.n_iter_, model.classes_[0])
"""


def test_another_process_reads_it(tmp_path):
    x, given, _ = blobs(rate=0.2)
    model = quick().fit(x, np.array(["a", "b", "c"])[given])
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    joblib.dump(model, tmp_path / "model.joblib")
    np.save(tmp_path / "x.npy", x)
    done = subprocess.run([sys.executable, "-c", READ], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(model.findings_.is_label_issue.sum()), "12", "a"] * 2
    for how in ("pickle", "joblib"):
        np.testing.assert_allclose(np.load(tmp_path / f"{how}.npy"), model.predict_proba(x), atol=1e-6)


def test_a_pickle_holds_the_model_and_little_else():
    x, y, _ = blobs()
    model = quick(module=Narrow).fit(x, y)
    assert len(pickle.dumps(model)) < 20_000
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


# Manners


def test_it_is_silent_unless_asked(capfd):
    x, y, _ = blobs()
    quick().fit(x, y).predict(x)
    assert capfd.readouterr() == ("", "")
    quick(verbose=1).fit(x, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "epoch 12/12" in err


def test_no_folder_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x, y, _ = blobs()
    quick().fit(x, y)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="the loss is"):
        quick(lr=1e30).fit(x, y)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": "slow"}, "no recipe 'slow'"),
        ({"epochs": 0}, "setting train.epochs: .*got 0"),
        ({"lr": float("nan")}, "setting train.lr: "),
        ({"threshold": 2.0}, "setting verdict.threshold: .*got 2.0"),
        ({"settings": ("data.flop=1",)}, "no setting 'data.flop'"),
        ({"device": "abacus"}, "accelerator='abacus'"),
    ],
)
def test_wrong_parameters_are_told_at_fit(changes, message):
    x, y, _ = blobs()
    model = quick(**changes)
    with pytest.raises(ValueError, match=message):
        model.fit(x, y)
    with pytest.raises(NotFittedError):
        model.predict(x)


# Data frames


def mixed_frame(rows=120):
    """Numbers with a gap, categories and texts, in an index of its own; the label follows from age and note."""
    old = np.arange(rows) % 2 == 1
    frame = pd.DataFrame(
        {
            "age": np.where(old, 60.0, 20.0) + np.arange(rows) % 7,
            "town": np.where(np.arange(rows) % 3 == 0, "Ulm", "Bonn"),
            "note": [f"visit {row} {'grey' if each else 'young'} person" for row, each in enumerate(old)],
        },
        index=[f"p{row}" for row in range(rows)],
    )
    frame.loc["p8", "age"] = np.nan
    return frame, np.where(old, "old", "young")


def test_a_frame_is_read_as_find_label_issues_reads_it():
    frame, y = mixed_frame()
    model = quick(epochs=12, pseudo_label=False).fit(frame, y)
    settings = ["train.epochs=12", "train.batch_size=32", "engine.accelerator=cpu"]
    found = find_label_issues(frame, y, settings=settings)
    assert model.findings_ == found
    assert model.findings_.table.index.equals(frame.index)
    assert model.feature_names_in_.tolist() == ["age", "town", "note"]
    assert model.n_features_in_ == 3
    new = pd.DataFrame({"age": [61.0, 19.0], "town": ["Rome", None], "note": ["grey", "young"]})
    assert model.predict(new).tolist() == ["old", "young"]
    with pytest.warns(UserWarning, match="X does not have valid feature names"):  # scikit-learn's
        assert model.predict(new.to_numpy(object)).tolist() == ["old", "young"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(new.rename(columns={"age": "years"}))


def test_a_frame_with_weights_leaves_rows_out():
    frame, y = mixed_frame()
    weight = np.ones(len(y))
    weight[[1, 5]] = 0
    model = quick().fit(frame, y, sample_weight=weight)
    assert np.flatnonzero(np.isnan(model.label_quality_)).tolist() == [1, 5]
    assert model.findings_.table.index.tolist() == frame.index.drop(["p1", "p5"]).tolist()


def test_suspects_of_a_frame_with_weights_are_shown_with_their_own_cells():
    x, given, _ = blobs(rate=0.2)
    frame = pd.DataFrame(x, columns=[f"x{at}" for at in range(x.shape[1])])
    weights = (np.arange(len(x)) >= 30).astype(float)
    table = quick(epochs=12, pseudo_label=False).fit(frame, given, sample_weight=weights).findings_.table
    shown = table["excerpt"].dropna()
    assert len(shown)
    for row, cells in shown.items():
        assert all(
            cell in {f"{name}={value:.4g}" for name, value in frame.loc[row].items()} for cell in cells.split(", ")
        )


def test_frames_that_are_no_features():
    frame, y = mixed_frame()
    with pytest.raises(InputError, match="images, embeddings or a column split"):
        quick().fit(pd.DataFrame({"embedding": [[1.0, 2.0]] * len(y)}), y)
    with pytest.raises(InputError, match="a column split"):
        quick().fit(frame.assign(split=["train"] * 60 + ["test"] * 60), y)


# Several tags per sample


def test_indicator_matrices():
    rng = np.random.default_rng(0)
    true = (rng.random((400, 3)) < [0.5, 0.4, 0.2]).astype(int)
    x = true @ rng.normal(size=(3, 8)) * 2 + rng.normal(size=(400, 8))
    given = true * (rng.random(true.shape) > 0.2)
    model = JNPLClassifier(random_state=0).fit(x, given)
    assert model.findings_ == find_label_issues(x, given, multi_label=True)
    np.testing.assert_array_equal(model.label_quality_, model.findings_.sample_quality)
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.history_, model.n_iter_ > 0) == ([], True)
    probs, predicted = model.predict_proba(x), model.predict(x)
    assert predicted.dtype == np.int64
    np.testing.assert_array_equal(predicted, probs >= np.array(model.findings_.thresholds, np.float32))
    assert (predicted == true).mean() > 0.9
    weights = np.where(np.arange(400) % 3 == 0, 0.0, 1.0)
    part, less = (
        JNPLClassifier(random_state=0).fit(x, given, sample_weight=weights),
        JNPLClassifier(random_state=0).fit(x[weights > 0], given[weights > 0]),
    )
    assert np.isnan(part.label_quality_[weights == 0]).all()
    assert same_network(part, less)


def test_indicator_matrices_in_other_forms():
    x, given = make_multilabel_classification(200, n_features=6, n_classes=3, random_state=0)
    dense = quick(random_state=0).fit(x, given)
    np.testing.assert_array_equal(quick().fit(x, csr_matrix(given)).predict(x), dense.predict(x))
    frame = pd.DataFrame(x, columns=list("abcdef"))
    model = quick().fit(frame, pd.DataFrame(given, columns=["cat", "dog", "eel"]))
    assert model.classes_.tolist() == ["cat", "dog", "eel"]
    assert model.findings_.tag_names == ("cat", "dog", "eel")
    assert model.predict(frame).shape == (200, 3)
    with pytest.raises(InputError, match="method has no meaning for several tags per sample"):
        quick(method="ce").fit(x, given)
