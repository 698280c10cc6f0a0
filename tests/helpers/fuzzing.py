"""Readers of foreign files, each with a good file, and damaged or forged variants of it, for tests and for fuzz.py.

A reader may return something or raise InputError: every other exception is a mistake of ours.
"""

import io
import json
import signal
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from jnpl.analysis.reference import Reference
from jnpl.api.check import check
from jnpl.data.decision_files import read_decisions
from jnpl.data.label_files import read_label_rows, read_labels, read_mapping, read_matrix
from jnpl.data.new_data import open_new
from jnpl.data.opening import open_source
from jnpl.data.source import UnreadableError
from jnpl.data.sources import cifar, cifarn, clothing1m
from jnpl.data.sources.images import decode
from jnpl.embedding.embedding_cache import EmbeddingCache
from jnpl.embedding.tfidf import load_tfidf
from jnpl.experiments import result_tables, results, status
from jnpl.internal.errors import InputError
from jnpl.judging.findings import Findings
from jnpl.judging.ledger import Ledger
from jnpl.models.build import build
from jnpl.models.weights import load_weights
from jnpl.noise.generate import corrupt
from jnpl.noise.noisy_labels import NoisyLabels
from jnpl.outputs.audit_session import AuditSession
from jnpl.outputs.corrections import with_held_out
from jnpl.outputs.gate import read_baseline
from jnpl.outputs.report import page
from jnpl.outputs.review.decisions import DecisionStore, NewDecision
from jnpl.outputs.saved_model import load
from jnpl.recipes.load import load_recipe
from jnpl.run_folder import RunFolder
from jnpl.training import checkpoint
from tests.helpers.runs import CLASSES, findings, vector_model
from tests.helpers.tag_runs import tag_run

SECONDS = 20  # a reader that takes longer hangs


@dataclass(frozen=True)
class Reader:
    """A reader of a file: what makes a folder with a good one, and the call that reads it.

    `wrap` turns the content that is damaged into the file, such as a member of an archive; the file is damaged as a
    whole without it. A `forged` file is JSON whose entries are replaced, not its bytes.
    """

    file: str
    prepare: Callable[[Path], object]
    read: Callable[[Path], object]
    content: Callable[[Path], bytes] | None = None
    wrap: Callable[[bytes], bytes] | None = None
    forged: bool = False

    def good(self, folder: Path) -> bytes:
        """Make the folder; returns the content to damage."""
        folder.mkdir(parents=True, exist_ok=True)
        self.prepare(folder)
        return (folder / self.file).read_bytes() if self.content is None else self.content(folder)

    def try_one(self, folder: Path, content: bytes) -> bool:
        """Read a variant; returns whether it was accepted. Anything but an InputError passes."""
        (folder / self.file).write_bytes(content if self.wrap is None else self.wrap(content))
        with _limited():
            try:
                self.read(folder)
            except (InputError, UnreadableError):
                return False
        return True


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError in a block that takes too long."""

    def late(*_: object) -> None:
        raise AssertionError(f"the reader hangs: more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Variants of a file

_KINDS = ("flip", "write", "insert", "delete", "cut", "repeat")
_PIECES = (b"\x00" * 8, b"\xff" * 8, b"\xff\xff\xff\x7f", b"[" * 3000, b'{"a":' * 3000, b"9" * 400, b"\n", b",", b'"')
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 1_000_000_000, 2**63, -(2**70), 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "x", "../x", "a:b", "\x1b[2J", "\udcff", "9" * 400, [], {}, [[]], {"a": None}, [1, "x"], [None] * 50),
)


def variant(reader: Reader, good: bytes, random: Random) -> bytes:
    """Return a variant of a good file, of the kind that the reader is tried on."""
    if reader.forged:
        return forged(good, [random.random() for _ in range(random.randint(1, 4))], random.choice(_VALUES))
    steps = [
        (random.choice(_KINDS), random.random(), random.random(), random.choice((random.randbytes(4), *_PIECES)))
        for _ in range(random.randint(1, 4))
    ]
    return damaged(good, steps)


def damaged(good: bytes, steps: list[tuple[str, float, float, bytes]]) -> bytes:
    """Return the content after some steps of damage."""
    content = bytearray(good)
    for kind, where, length, new in steps:
        at = int(where * (len(content) + 1))
        end = at + int(length * min(len(content) - at, 64)) + 1
        if kind == "flip" and at < len(content):
            content[at] ^= new[0] or 1
        elif kind == "write":
            content[at : at + len(new)] = new
        elif kind == "insert":
            content[at:at] = new
        elif kind == "delete":
            del content[at:end]
        elif kind == "cut":
            del content[at:]
        else:
            content[at:at] = content[at:end]
    return bytes(content)


def forged(good: bytes, places: list[float], value: Any) -> bytes:
    """Return a JSON text in which one entry, found by going down at `places`, is replaced."""
    whole = json.loads(good)
    at, last = whole, None
    holder: Any = None
    for place in places:
        if not isinstance(at, dict | list) or not at:
            break
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        holder, last = at, keys[int(place * len(keys))]
        at = at[last]
    if holder is None:
        return json.dumps(value).encode()
    holder[last] = value
    return json.dumps(whole).encode()


# Good files


def _npz(**values: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **values)
    return file.getvalue()


def _npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def _zip(name: str, **others: bytes) -> Callable[[bytes], bytes]:
    def wrap(content: bytes) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(name, content)
            for other, text in others.items():
                archive.writestr(f"{other}.npy", text)
        return file.getvalue()

    return wrap


def _write(name: str, content: bytes | str) -> Callable[[Path], object]:
    raw = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(raw)


def _parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(file, "PNG")
    return file.getvalue()


def _saved_labels() -> zipfile.ZipFile:
    """Return a file of human labels, as torch.save writes it."""
    file = io.BytesIO()
    labels = np.arange(12) % 10
    torch.save({"clean_label": labels, "worse_label": labels[::-1].copy(), "some_list": list(range(9))}, file)
    return zipfile.ZipFile(file)


def _human() -> bytes:
    """Return the pickle in a file of human labels."""
    with _saved_labels() as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))


def _with_pickle(content: bytes) -> bytes:
    """Return a file of human labels with another pickle in it."""
    file = io.BytesIO()
    with _saved_labels() as archive, zipfile.ZipFile(file, "w") as changed:
        for name in archive.namelist():
            changed.writestr(name, content if name.endswith("data.pkl") else archive.read(name))
    return file.getvalue()


def _archive() -> bytes:
    """Return a small archive with the names of CIFAR-10's."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in (
            ("batches.meta.txt", b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n"),
            *((f"data_batch_{at}.bin", bytes(3073 * 2)) for at in range(1, 6)),
            ("test_batch.bin", bytes(3073 * 2)),
        ):
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def _clothing(folder: Path) -> None:
    keys = [f"images/{at % 14}/{at}.jpg" for at in range(28)]
    pairs = "".join(f"{key} {at % 14}\n" for at, key in enumerate(keys))
    for name in ("noisy_label_kv.txt", "clean_label_kv.txt"):
        (folder / name).write_text(pairs)
    for split in ("noisy_train", "clean_test", "clean_val"):
        (folder / f"{split}_key_list.txt").write_text("\n".join(keys) + "\n")


def _run(folder: Path) -> None:
    findings(paths=["cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "eel/0.png"]).save(folder)
    held = [{"id": "cat/9.png", "label": "cat"}]
    data = {"kind": "image", "root": "photos", "command": ["jnpl", "find"], "held_out": held, "duplicates": []}
    (folder / "data.json").write_text(json.dumps(data))
    run = {"format": "jnpl run 1", "status": "finished", "seed": 0, "recipe": {}, "results": {"noise_rate": 0.3}}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "metrics.jsonl").write_text('{"epoch": 0, "loss": 1.5}\n{"epoch": 1, "loss": 0.5}\n')


def _read_run(run: RunFolder) -> object:
    return page.render(run), with_held_out(run.findings, run.require_data_facts().held_out)[0]


def _predict(folder: Path) -> object:
    return load(folder).predict_proba(np.ones((2, 4), np.float32))


def _table_model(folder: Path) -> None:
    source = open_source(_frame())
    values: Any = source.inputs
    vector_model(folder, features=values.values.shape[1], encoding=source.encoding)


def _frame() -> Any:
    import pandas as pd

    return pd.DataFrame({"label": [*CLASSES] * 20, "size": range(60), "town": ["Ulm", "Bonn", "Rome"] * 20})


def _predict_table(folder: Path) -> object:
    model = load(folder)
    return open_new(_frame().drop(columns="label"), model.classes, kind=model.kind, encoding=model.encoding)


def _run_of_a_table(folder: Path) -> None:
    _table_model(folder)
    findings().save(folder)


def _check(folder: Path) -> object:
    return check(folder, _frame())


def _tag_run(folder: Path) -> None:
    tag_run(folder)


def _read_tag_run(folder: Path) -> object:
    run = RunFolder(folder)
    return page.render(run), run.sample_findings.table


def _decisions(folder: Path) -> None:
    (folder / "review.sqlite").unlink(missing_ok=True)
    with closing(DecisionStore(folder / "review.sqlite", findings())) as store:
        store.decide([NewDecision(1, "relabel", 2), NewDecision(3, "drop")], reviewer="Ann", tab="t")


def _read_decisions(folder: Path) -> object:
    for left in ("-wal", "-shm", "-journal"):
        (folder / f"review.sqlite{left}").unlink(missing_ok=True)
    with closing(DecisionStore(folder / "review.sqlite", findings())) as store:
        return store.current()


def _boxes(folder: Path) -> object:
    return open_source(folder, crops=True)


def _yolo(folder: Path) -> None:
    for part in ("images", "labels"):
        (folder / part).mkdir(exist_ok=True)
    for at in range(2):
        (folder / "images" / f"{at}.png").write_bytes(_png())
        (folder / "labels" / f"{at}.txt").write_text("0 0.5 0.5 0.4 0.4\n1 0.2 0.2 0.2 0.3\n")
    (folder / "data.yaml").write_text("path: .\ntrain: images\nnames:\n  0: cat\n  1: dog\n")


def _coco(folder: Path) -> None:
    for at in range(12):
        (folder / f"{at}.png").write_bytes(_png())
    boxes = [
        {"id": at, "image_id": at, "category_id": at % 2, "bbox": [at % 3, 1, 3, 4.5], "iscrowd": 0, "area": 13.5}
        for at in range(12)
    ]
    names = [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]
    images = [{"id": at, "file_name": f"{at}.png", "width": 8, "height": 8} for at in range(12)]
    (folder / "coco.json").write_text(json.dumps({"images": images, "annotations": boxes, "categories": names}))


def _checkpoint(folder: Path) -> None:
    facts = {"phase": 0, "epoch": 1, "seconds": 2.5}
    checkpoint.save(folder / "checkpoint", checkpoint.State({"method/weight": torch.eye(3)}, facts))


def _ledger(folder: Path) -> None:
    ledger = Ledger(4, 3)
    ledger.record(torch.arange(4), torch.full((4, 3), 1 / 3), 0)
    ledger.save(folder / "ledger.safetensors")


def _cache(folder: Path) -> None:
    cache = EmbeddingCache(folder, "k" * 64, (3, 1, 2))
    cache.write(0, np.ones((3, 1, 2), np.float16), {1: "empty file"})


def _read_cache(folder: Path) -> object:
    cache = EmbeddingCache(folder, "k" * 64, (3, 1, 2))
    return cache.missing(), cache.unreadable(), np.asarray(cache.values()).sum()


def _weights(folder: Path) -> None:
    torch.save(build("mlp", num_classes=3, input_shape=(4,), seed=0).state_dict(), folder / "weights.pt")


def _noisy(folder: Path) -> None:
    corrupt(np.arange(30) % 3, "symm", 0.4, seed=0).save(folder / "noisy.npz")


def _results(folder: Path) -> None:
    spec = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "seed": 1, "net": "mlp", "epochs": 2}
    (folder / "results.jsonl").write_text(json.dumps({"name": "a", "cell": spec, "results": {"ap": 0.5}}) + "\n")


def _read_results(folder: Path) -> object:
    results.read(folder / "results.jsonl")
    return result_tables.markdown(result_tables.load(folder / "results.jsonl"))


def _experiment(folder: Path) -> None:
    facts = {
        "format": "jnpl experiment 1",
        "began": 1.0,
        "engine": "local",
        "jobs": 2,
        "results": "../results.jsonl",
        "runs": ["a"],
    }
    (folder / "experiment.json").write_text(json.dumps(facts))


def _audited(folder: Path) -> None:
    _run(folder)
    session = AuditSession(RunFolder(folder), 3)
    session.answer([(at, 0) for at in session.facts().positions[:2]], "a")


def _read_audit(run: RunFolder) -> object:
    return run.read_audit(), AuditSession(run).result(), run.with_audit(run.findings)


def _checked(folder: Path) -> None:
    _run(folder)
    copies = [{"id": "cat/0.png", "label": "cat", "run_id": 4, "run_label": "dog"}]
    facts = {"run": "before", "sentences": ["1 sample"], "copies": copies, "far": [{"id": "cat/1.png", "p_value": 0.1}]}
    (folder / "check.json").write_text(json.dumps(facts))


def _reference(folder: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    made = Reference.of(open_source((vectors, np.arange(40) % 3)))
    assert made is not None
    made.save(folder / "reference.safetensors")


_LABEL_STUDIO = [
    {"data": {"id": "a.png"}, "annotations": [{"result": [{"value": {"choices": ["cat"]}}], "was_cancelled": False}]},
    {"data": {"image": "b.png"}, "annotations": [{"result": [], "was_cancelled": True}]},
]
_FIFTYONE = {"samples": [{"filepath": "/x/a.png", "tags": ["drop"]}, {"filepath": "b", "decision": {"label": "cat"}}]}
_CVAT = '<annotations><image id="0" name="a.png"><tag label="cat"/></image><image id="1" name="b.png"/></annotations>'
_IDS = np.array(["a.png", "b.png"], object)
_VECTORS = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
_CSV = "label,a,b,when\n" + "".join(f"{'xyz'[at % 3]},{at},{at / 7},2020-01-{at + 1:02d}\n" for at in range(12))
_TOML = 'model = "mlp"\n[train]\nepochs = 3\nlr = 0.1\nmilestones = [2]\nschedule = "step"\n[method]\nname = "jnpl"\n'
_BYTES_TABLE = pa.table({"label": ["a", "b"] * 3, "image": [_png()] * 6})
_HF = pa.table({"label": [0, 1] * 3, "a": [1.0, 2.0] * 3}).replace_schema_metadata(
    {"huggingface": json.dumps({"info": {"features": {"label": {"_type": "ClassLabel", "names": ["a", "b"]}}}})}
)

REFUSED = ("cifar archive", "tfidf state")  # even undamaged: they are too small, or a part only
LENIENT = (
    "metrics.jsonl",
    "checkpoint facts",
    "checkpoint tensors",
    "embedding cache",
    "embedding cache blocks",
    "embedding cache reasons",
)  # a torn file is not used, and that is no error
READERS: dict[str, Reader] = {
    "npz": Reader(
        "d.npz", _write("d.npz", _npz(x=_VECTORS, y=np.arange(12) % 3)), lambda at: open_source(at / "d.npz")
    ),
    "npz member x": Reader(
        "d.npz",
        _write("d.npz", b""),
        lambda at: open_source(at / "d.npz"),
        lambda _: _npy(_VECTORS),
        _zip("x.npy", y=_npy(np.arange(12) % 3)),
    ),
    "npz member y": Reader(
        "d.npz",
        _write("d.npz", b""),
        lambda at: open_source(at / "d.npz"),
        lambda _: _npy(np.array(["a", "b", "c"] * 4)),
        _zip("y.npy", x=_npy(_VECTORS)),
    ),
    "npy labels": Reader("y.npy", _write("y.npy", _npy(np.arange(12) % 3)), lambda at: read_labels(at / "y.npy")),
    "bytes labels": Reader(
        "y.npy", _write("y.npy", _npy(np.array([b"a", b"b"]))), lambda at: read_labels(at / "y.npy")
    ),
    "csv": Reader("d.csv", _write("d.csv", _CSV), lambda at: open_source(at / "d.csv")),
    "csv labels": Reader("y.csv", _write("y.csv", _CSV), lambda at: read_labels(at / "y.csv")),
    "txt labels": Reader("y.txt", _write("y.txt", "0\n1\n2\n"), lambda at: read_labels(at / "y.txt")),
    "matrix": Reader("m.csv", _write("m.csv", "0.5,0.5\n0,1\n"), lambda at: read_matrix(at / "m.csv")),
    "mapping": Reader("m.json", _write("m.json", '{"0": 1}'), lambda at: read_mapping(str(at / "m.json"), None)),
    "label rows csv": Reader("r.csv", _write("r.csv", "id,label\n0,cat\n"), lambda at: read_label_rows(at / "r.csv")),
    "label rows json": Reader(
        "r.json", _write("r.json", '[{"id": 0, "label": "cat"}]'), lambda at: read_label_rows(at / "r.json")
    ),
    "parquet": Reader("d.parquet", _write("d.parquet", _parquet(_HF)), lambda at: open_source(at / "d.parquet")),
    "parquet of images": Reader(
        "d.parquet",
        _write("d.parquet", _parquet(_BYTES_TABLE)),
        lambda at: [source.inputs.read(0, 8) for source in [open_source(at / "d.parquet")] if source.kind == "image"],
    ),
    "image": Reader("a.png", _write("a.png", _png()), lambda at: decode(at / "a.png", 8)),
    "toml": Reader("r.toml", _write("r.toml", _TOML), lambda at: load_recipe(str(at / "r.toml"))),
    "cifar archive": Reader(
        "cifar-10-binary.tar.gz",
        _write("cifar-10-binary.tar.gz", _archive()),
        lambda at: cifar.load("cifar10", at, download=False),
    ),
    "human labels": Reader(
        "CIFAR-10_human.pt",
        _write("CIFAR-10_human.pt", b""),
        lambda at: cifarn.read_human(at / "CIFAR-10_human.pt", "worse_label"),
        lambda _: _human(),
        _with_pickle,
    ),
    "key list": Reader("noisy_train_key_list.txt", _clothing, clothing1m.load),
    "key labels": Reader("noisy_label_kv.txt", _clothing, clothing1m.load),
    "noisy labels": Reader("noisy.npz", _noisy, lambda at: NoisyLabels.load(at / "noisy.npz")),
    "findings.json": Reader("findings.json", _run, lambda at: Findings.load(at).table),
    "findings.parquet": Reader("findings.parquet", _run, Findings.load),
    "data.json": Reader("data.json", _run, lambda at: _read_run(RunFolder(at))),
    "run.json, forged": Reader(
        "run.json", _run, lambda at: (page.render(RunFolder(at)), RunFolder(at).open({"seed": 0})), forged=True
    ),
    "metrics.jsonl": Reader("metrics.jsonl", _run, lambda at: page.render(RunFolder(at))),
    "model.json": Reader("model.json", vector_model, _predict),
    "encoding, forged": Reader("model.json", _table_model, _predict_table, forged=True),
    "model.json in a check": Reader("model.json", _run_of_a_table, _check),
    "model.json in a check, forged": Reader("model.json", _run_of_a_table, _check, forged=True),
    "model.safetensors": Reader("model.safetensors", vector_model, _predict),
    "weights": Reader(
        "weights.pt",
        _weights,
        lambda at: load_weights(build("mlp", num_classes=3, input_shape=(4,), seed=0), at / "weights.pt"),
    ),
    "checkpoint facts": Reader(
        "checkpoint/00000000/state.json", _checkpoint, lambda at: checkpoint.load(at / "checkpoint")
    ),
    "checkpoint tensors": Reader(
        "checkpoint/00000000/state.safetensors", _checkpoint, lambda at: checkpoint.load(at / "checkpoint")
    ),
    "ledger": Reader("ledger.safetensors", _ledger, lambda at: Ledger.load(at / "ledger.safetensors")),
    "embedding cache": Reader(f"{'k' * 32}/cache.json", _cache, _read_cache),
    "embedding cache blocks": Reader(f"{'k' * 32}/blocks", _cache, _read_cache),
    "embedding cache reasons": Reader(f"{'k' * 32}/unreadable.jsonl", _cache, _read_cache),
    "tfidf state": Reader(
        "s.bin",
        _write("s.bin", b'["a", "b"]'),
        lambda at: load_tfidf(
            {
                "settings": np.frombuffer((at / "s.bin").read_bytes(), np.uint8),
                "vocabulary": np.frombuffer((at / "s.bin").read_bytes(), np.uint8),
                "idf": np.ones(2, np.float32),
                "components": np.ones((1, 2), np.float32),
            }
        ),
    ),
    "audit.json": Reader("audit.json", _audited, lambda at: _read_audit(RunFolder(at))),
    "check.json": Reader("check.json", _checked, lambda at: page.render(RunFolder(at))),
    "reference of a run": Reader(
        "reference.safetensors", _reference, lambda at: Reference.load(at / "reference.safetensors")
    ),
    "baseline, forged": Reader(
        "b.json",
        _write("b.json", '{"suspects": [{"id": 1}, {"id": "a"}], "issues": 2}'),
        lambda at: read_baseline(at / "b.json"),
        forged=True,
    ),
    "decisions of Label Studio": Reader(
        "d.json",
        _write("d.json", json.dumps(_LABEL_STUDIO)),
        lambda at: read_decisions(at / "d.json", _IDS),
        forged=True,
    ),
    "decisions of FiftyOne": Reader(
        "d.json", _write("d.json", json.dumps(_FIFTYONE)), lambda at: read_decisions(at / "d.json", _IDS), forged=True
    ),
    "decisions of CVAT": Reader("d.xml", _write("d.xml", _CVAT), lambda at: read_decisions(at / "d.xml", _IDS)),
    "votes": Reader(
        "v.csv",
        _write(
            "v.csv", "a,b,ann,bob\n" + "".join(f"{at},{at % 5},{'xy'[at % 2]},{'xy '[at % 3]}\n" for at in range(12))
        ),
        lambda at: open_source(at / "v.csv", label_columns=["ann", "bob"]),
    ),
    "table of tags": Reader(
        "t.csv",
        _write(
            "t.csv", "a,b,label\n" + "".join(f"{at * 7 % 12},{at % 5},{'x;y' if at % 2 else 'y'}\n" for at in range(12))
        ),
        lambda at: open_source(at / "t.csv", multi_label=True),
    ),
    "findings.json of tags": Reader("findings.json", _tag_run, _read_tag_run),
    "findings.json of tags, forged": Reader("findings.json", _tag_run, _read_tag_run, forged=True),
    "findings.parquet of tags": Reader("findings.parquet", _tag_run, _read_tag_run),
    "COCO": Reader("coco.json", _coco, lambda at: open_source(at / "coco.json", crops=True)),
    "COCO, forged": Reader("coco.json", _coco, lambda at: open_source(at / "coco.json", crops=True), forged=True),
    "COCO as tags, forged": Reader(
        "coco.json", _coco, lambda at: open_source(at / "coco.json", multi_label=True), forged=True
    ),
    "data.yaml of YOLO": Reader("data.yaml", _yolo, _boxes),
    "labels of YOLO": Reader("labels/0.txt", _yolo, _boxes),
    "decisions of a review": Reader("review.sqlite", _decisions, _read_decisions),
    "bench results": Reader("results.jsonl", _results, _read_results),
    "experiment.json, forged": Reader("experiment.json", _experiment, lambda at: status.read(at).text(), forged=True),
}
JSON = ("findings.json", "data.json", "model.json", "audit.json", "check.json")
READERS |= {f"{name}, forged": replace(READERS[name], forged=True) for name in JSON}
