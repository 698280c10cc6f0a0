"""Wrong input of every kind, for every command: one line on stderr, exit code 2, and no file is made or changed.

A case is a command, what its line must say, and what is wrong in the folder it runs in (a function that prepares it).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import struct
import zipfile
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from tests.helpers.command import jnpl
from tests.helpers.runs import findings, photos, vector_model
from tests.helpers.tag_runs import tag_run

from jnpl.outputs.review.decisions import DecisionStore, NewDecision

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jnpl import Findings

DEEP = "[" * 50_000
LONG = "n" * 300
LABEL_STUDIO = '[{{"data": {{"id": "x"}}, "annotations": [{{"result": [{{"value": {}}}]}}]}}]'
BOMB = (
    '<!DOCTYPE a [<!ENTITY a "'
    + "a" * 99
    + '">'
    + "".join(f'<!ENTITY a{at} "{f"&a{at - 1 or str()};" * 99}">' for at in range(1, 9))
    + "]><a>&a8;</a>"
)
PATHS = ["cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "eel/0.png"]


def nothing(_here: Path) -> None:
    """Prepare nothing: the command itself is wrong."""


@dataclass(frozen=True)
class Case:
    """A command that must fail."""

    args: str  # split at spaces
    message: str  # a regular expression
    prepare: Callable[[Path], None] = field(default=nothing, repr=False)
    name: str = ""


def text(name: str, content: str) -> Callable[[Path], None]:
    """Write a text file."""
    return raw(name, content.encode())


def tagged(odd: str, even: str) -> Callable[[Path], None]:
    """Write a table of 12 rows with a column of tags."""
    rows = "".join(f"{at * 7 % 12},{at % 5},{odd if at % 2 else even}\n" for at in range(12))
    return text("tags.csv", "a,b,label\n" + rows)


def raw(name: str, content: bytes) -> Callable[[Path], None]:
    """Write a file of bytes, in a folder that may be new."""

    def make(here: Path) -> None:
        (here / name).parent.mkdir(exist_ok=True, parents=True)
        (here / name).write_bytes(content)

    return make


def arrays(name: str, **values: object) -> Callable[[Path], None]:
    """Write an .npz."""
    return lambda here: np.savez(here / name, **{key: np.asarray(value) for key, value in values.items()})


def pipe(name: str) -> Callable[[Path], None]:
    """Make a named pipe, in place of a file if there is one."""

    def make(here: Path) -> None:
        (here / name).unlink(missing_ok=True)
        os.mkfifo(here / name)

    return make


def gone(name: str) -> Callable[[Path], None]:
    """Remove a file."""
    return lambda here: (here / name).unlink()


def facts(name: str, **changes: object) -> Callable[[Path], None]:
    """Change entries of a JSON file."""

    def change(here: Path) -> None:
        known = json.loads((here / name).read_text("utf-8"))
        (here / name).write_text(json.dumps({**known, **changes}), "utf-8")

    return change


def both(*steps: Callable[[Path], None]) -> Callable[[Path], None]:
    """Prepare several things."""

    def do(here: Path) -> None:
        for step in steps:
            step(here)

    return do


def encrypted(here: Path) -> None:
    """Set the flag of encryption in every member of an .npz."""
    content = bytearray((here / "data.npz").read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(mark, at + 4)
    (here / "data.npz").write_bytes(content)


def npy(header: str, name: str = "labels.npy") -> Callable[[Path], None]:
    """Write an .npy with a header of one's choice."""
    content = header.encode("latin1") + b"\n"
    return raw(name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(content)) + content + bytes(80))


def npz_with(member: str, content: bytes) -> Callable[[Path], None]:
    """Write an .npz with one member of one's choice."""

    def make(here: Path) -> None:
        with zipfile.ZipFile(here / "data.npz", "w") as archive:
            archive.writestr(member, content)

    return make


def not_finite(here: Path) -> None:
    """Make a weight of the model nan."""
    path = here / "model" / "model.safetensors"
    weights = load_file(path)
    next(iter(weights.values())).view(-1)[0] = float("nan")
    save_file(weights, path)


def pickle_of_shared_tuples(here: Path) -> None:
    """Write a file of human labels whose one key is a tuple of 2**60 values, in a few hundred bytes."""
    steps = b"\x80\x02}(K\x01q\x00"
    for at in range(60):
        steps += b"0h" + bytes([at]) + b"h" + bytes([at]) + b"\x86q" + bytes([at + 1])
    with zipfile.ZipFile(here / "CIFAR-10_human.pt", "w") as archive:
        archive.writestr("archive/data.pkl", steps + b"K\x02u.")


def parquet(here: Path, **columns: object) -> None:
    """Write data.parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), here / "data.parquet")


def lists(here: Path) -> None:
    """Write data.parquet with lists of 2 numbers in the column v, and of different lengths in the column w."""
    parquet(here, label=["a", "b"] * 6, x=range(12), v=[[0.5, 1.5]] * 12, w=[[0.5] * at for at in range(12)])


def parquet_of_broken_metadata(content: str) -> Callable[[Path], None]:
    """Write a table whose metadata for pandas are broken."""

    def make(here: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({"label": ["a", "b"], "a": [1.0, 2.0]})
        pq.write_table(table.replace_schema_metadata({"pandas": content}), here / "data.parquet")

    return make


def outside(path: str) -> Callable[[Path], None]:
    """Write findings whose first image lies elsewhere."""

    def make(here: Path) -> None:
        (here / "secret.png").write_bytes(b"secret")
        findings(paths=[path.format(here=here), *PATHS[1:]]).save(here / "run")

    return make


def database(statement: str) -> Callable[[Path], None]:
    """Write a database in place of the decisions of a review."""

    def make(here: Path) -> None:
        with closing(sqlite3.connect(here / "run" / "review.sqlite")) as connection:
            connection.execute(statement)
            connection.commit()

    return make


def decided(forged: str = "position = position", fits: Callable[[], Findings] = lambda: findings(paths=PATHS)):
    """Decide about the second sample of the run, and change the decision as no review would."""

    def make(here: Path) -> None:
        with closing(DecisionStore(here / "run" / "review.sqlite", fits())) as store:
            store.decide([NewDecision(1, "keep")], reviewer="Ann", tab="t")
        database(f"UPDATE decisions SET {forged}")(here)
        if "position" in forged:
            database("UPDATE current SET position = (SELECT position FROM decisions)")(here)

    return make


decisions_of_other_data = decided(fits=lambda: findings(paths=PATHS[::-1]))


def torn_decisions(here: Path) -> None:
    """Write half of the decisions of a review."""
    decided()(here)
    path = here / "run" / "review.sqlite"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


TAGGED = "find tags.csv -o new --multi-label"
FIND = "find data.npz -o new"
TABLE = "find data.csv -o new"
CASES = [
    # No command, unknown ones, missing and unknown options
    Case("bench", "Missing option '--out'"),
    Case("frobnicate", "No such command"),
    Case("find", "Missing argument"),
    Case("find data.npz", "Missing option '--out'"),
    Case("find data.npz -o new --frobnicate", "No such option"),
    Case("train data.npz", "Missing option '--out'"),
    Case("predict", "Missing argument"),
    Case("apply", "Missing argument"),
    Case("export run", "Missing option"),
    Case("report", "Missing argument"),
    Case("corrupt", "Missing argument"),
    Case("reproduce", "Missing argument"),
    Case("embed", "Missing argument"),
    Case("bench status", "Missing argument"),
    # Options of find and train out of range
    Case(f"{FIND} --seed -1", "'--seed'"),
    Case(f"{FIND} --seed x", "'--seed'"),
    Case(f"{FIND} --top -1", "'--top'"),
    Case(f"{FIND} --views 0", "'--views'"),
    Case(f"{FIND} --size 7", "'--size'"),
    Case(f"{FIND} --size 64", "size .*has no meaning for data, which holds vectors"),
    Case(f"{TABLE} --views 3", "views .*has no meaning for data, which holds vectors"),
    Case(f"{TABLE} --quality best", "quality .*has no meaning for data, which holds vectors"),
    Case(f"{FIND} --size 100000", "'--size'"),
    Case(f"{FIND} --threads 0", "'--threads'"),
    Case(f"{FIND} --threads 20000", "'--threads'"),
    Case(f"{FIND} --workers -1", "'--workers'"),
    Case(f"{FIND} --workers 99999", "'--workers'"),
    Case(f"{FIND} --devices 0", "'--devices'"),
    Case(f"{FIND} --accelerator abacus", "abacus"),
    Case(f"{FIND} --precision 7", "--precision takes a share"),
    Case(f"{FIND} --precision 16-mixed", "--float-format 16-mixed chooses the numbers to train with"),
    Case(f"{FIND} --float-format %.4f", "--float-format takes 32, bf16-mixed, 16-mixed, got '%.4f'"),
    Case(f"{FIND} --seed {2**63}", r"seed must be below 2\*\*63"),
    Case(f"{FIND} --set method.num_complements=2", "num_complements goes with complements 'sampled'"),
    Case(f"{FIND} --holdout 2", "hold"),
    Case(f"{FIND} --holdout nan", "hold"),
    Case(f"{FIND} --holdout 0.1 --test data.npz", "exclude each other"),
    Case(f"{FIND} --threshold 7", "verdict.threshold"),
    Case(f"{FIND} --threshold high", "must be a number in"),
    Case(f"{FIND} --checkpoint-every 0", "--checkpoint-every takes"),
    Case(f"{FIND} --checkpoint-every {'9' * 40}", "--checkpoint-every takes"),
    Case(f"{FIND} --checkpoint-every 5h", "--checkpoint-every takes"),
    Case(f"{FIND} --finetune --recipe fast", "--finetune has a recipe of its own"),
    Case(f"{FIND} --recipe none-such", "no recipe 'none-such'"),
    Case(f"{FIND} --recipe none.toml", "no such recipe file"),
    Case(f"{FIND} --method magic", "magic"),
    Case(f"{FIND} --weights none.pt", "none.pt"),
    Case(f"{FIND} --weights http://127.0.0.1:9/w.pt", "sha256|http"),
    Case(f"{FIND} --backbone bert", "backbone"),
    Case(f"{FIND} --noise worse", "noise has no meaning"),
    Case(f"{FIND} --coarse", "coarse has no meaning"),
    # Several tags per sample
    Case(f"{FIND} --multi-label", "multi_label has no meaning"),
    Case(f"{FIND} --tag-columns a,b", "tag_columns has no meaning"),
    Case("find data.csv -o new --tag-columns a,none", "none"),
    Case("find data.csv -o new --tag-columns a", "tag column 'a' of 'data.csv' must hold 0 and 1, not 2"),
    Case("find data.csv -o new --tag-columns a --label-column label", "exclude each other"),
    Case("find data.csv -o new --multi-label --true-label-column a", "exclude each other"),
    Case("find data.csv -o new --multi-label --labels labels.csv", r"no such file: 'labels.csv'"),
    Case(f"{TAGGED}", "separates tags in several ways", tagged("x;y", "x|y"), "tags separated in two ways"),
    Case(f"{TAGGED}", "has no tag at all", tagged("", ""), "no tags"),
    Case(f"{TAGGED}", "none can be judged", tagged("x", "x"), "a tag on all"),
    Case(f"{TAGGED}", "no JSON list", tagged("[x", "y"), "torn JSON of tags"),
    Case(f"{TAGGED} --method nlnl", "--method has no meaning", tagged("x;y", "y")),
    Case(f"{TAGGED} --recipe small", "--recipe has no meaning", tagged("x;y", "y")),
    Case(f"{TAGGED} --finetune", "--finetune has no meaning", tagged("x;y", "y")),
    Case(f"{TAGGED} --track mlflow", "--track has no meaning", tagged("x;y", "y")),
    Case(f"{TAGGED} --threshold per-class", "no meaning for several tags", tagged("x;y", "y")),
    Case(f"{FIND} --balanced", "balanced has no meaning"),
    Case(f"{FIND} --text-column a", "text_column has no meaning"),
    # Settings
    Case(f"{FIND} --set train.epochs", "key=value"),
    Case(f"{FIND} --set train.epochs=0", "train.epochs"),
    Case(f"{FIND} --set train.epochs={'9' * 30}", "train.epochs"),
    Case(f"{FIND} --set train.batch_size={'9' * 30}", "train.batch_size"),
    Case(f"{FIND} --set train.lr=1e308", "train.lr"),
    Case(f"{FIND} --set train.lr=nan", "train.lr"),
    Case(f"{FIND} --set train.lr=-1", "train.lr"),
    Case(f"{FIND} --set train.color=blue", "no setting 'train.color'"),
    Case(f"{FIND} --set train=3", "train"),
    Case(f"{FIND} --set train.epochs.more=3", "is a value, not a group"),
    Case(f"{FIND} --set method.name=[1]", "the name of a method is a text"),
    Case(f"{FIND} --set method.name=nosuch", "nosuch"),
    Case(f"{FIND} --set model=resnet99", "resnet99"),
    Case(f"{FIND} --set model=no_such_module:net", "no_such_module"),
    Case(f"{FIND} --set verdict.history={DEEP}", "nested too deeply", name="deep setting"),
    Case(f"{FIND} --recipe deep.toml", "nested too deeply", text("deep.toml", f"a = {DEEP}")),
    Case(f"{FIND} --recipe bad.toml", "not valid TOML", text("bad.toml", "[train\n")),
    Case(f"{FIND} --recipe bytes.toml", "not valid TOML|train", raw("bytes.toml", b"a = '\xff'")),
    Case(f"{FIND} --recipe empty.toml", "train", text("empty.toml", "")),
    Case(f"{FIND} --recipe pipe.toml", "no such recipe file|is a pipe", pipe("pipe.toml")),
    # Data that are not there, or something else
    Case("find none -o new", "no such file or folder: 'none'"),
    Case("find digitz -o new", "did you mean 'digits'"),
    Case("find notes.txt -o new", "data is a folder", text("notes.txt", "x")),
    Case(f"find {LONG} -o new", "no such file or folder|name too long", name="long name of data"),
    Case(f"find data.npz -o {LONG}", "name too long", name="long name of a run"),
    Case("find data.npz -o data.csv", "is a file"),
    Case("find data.npz -o data.csv/run", "Not a directory|is a file"),
    Case("find data.npz -o photos", "holds something else than a run"),
    Case("find photos -o photos/run", "lies inside the data folder"),
    Case("train photos -o photos/cat/run", "lies inside the data folder"),
    Case("find pipe.npz -o new", "is a pipe", pipe("pipe.npz")),
    Case("find pipe.csv -o new", "is a pipe", pipe("pipe.csv")),
    Case("find pipe.parquet -o new", "is a pipe", pipe("pipe.parquet")),
    # Sparse files: a gigabyte of zeros would be read, and parsed, before it is refused
    Case(
        "find data.json --crops -o new",
        "ends in bytes of zero",
        raw("data.json", b'{"a": 1}' + bytes(99)),
        "sparse COCO",
    ),
    Case("find data.npz -o new --recipe a.toml", "ends in bytes of zero", raw("a.toml", bytes(99)), "sparse recipe"),
    Case("corrupt y.txt --rate 0.4", "ends in bytes of zero", raw("y.txt", b"0\n1\n" + bytes(99)), "sparse labels"),
    Case("apply run --decisions a.xml", "ends in bytes of zero", raw("a.xml", bytes(99)), "sparse decisions"),
    # boxes
    Case("find data.json --crops -o new", "no COCO file: it has no list 'images'", text("data.json", "{}")),
    Case("find data.json --crops -o new", "not valid JSON: .*nested too deeply", text("data.json", DEEP), "deep COCO"),
    Case("find data.yaml --crops -o new", "is not valid YAML", text("data.yaml", DEEP), "deep YAML"),
    Case("find data.yaml --crops -o new", "has no entry names", text("data.yaml", "- a"), "YAML list"),
    Case("find data.csv --crops -o new", "crops has no meaning for a table"),
    Case("find photos --crops -o new", "crops has no meaning for the folder"),
    Case("find data.json --crops -o new", "no such file or folder: 'data.json'", name="no COCO file"),
    Case("find data.json --crops --multi-label -o new", "have one label each", text("data.json", "{}")),
    Case("apply run --same-form new.json", "is for runs on boxes"),
    # runs on several tags
    *(
        Case(f"{command} tags{more}", message, lambda here: tag_run(here / "tags") and None, f"{command} of tags")
        for command, more, message in (
            ("audit", "", "run on several tags per sample: jnpl report, review, apply, export and predict take it"),
            ("check", " data.csv", "run on several tags per sample"),
            (
                "export --to onnx -o new",
                "",
                "is for one label per sample; samples with several tags are written",
            ),
            ("apply --copy new", "", "a sample with several tags has no folder of its class"),
            ("apply --same-form new.csv", "", "--same-form is for runs on boxes .* and on tables of several tags"),
            ("report --threshold 1/c", "", "the threshold '1/c' has no meaning for several tags per sample"),
            ("find data.csv --label-column label -o new --review", "", "run on several tags per sample"),
        )
    ),
    # .npz
    Case(FIND, "not a valid .npz", raw("data.npz", b"")),
    Case(FIND, "not a valid .npz", raw("data.npz", b"PK\x03\x04 and more"), "torn .npz"),
    Case(FIND, "not a valid .npz|damaged", encrypted, "encrypted .npz"),
    Case(FIND, "damaged|not a valid", npz_with("x.npy", b"\x93NUMPY\x01\x00\x04\x00((("), "header that is no Python"),
    Case(FIND, "has no array 'x'", arrays("data.npz", a=[1])),
    Case(FIND, "has no array 'y'", arrays("data.npz", x=np.eye(3))),
    Case(FIND, "Python objects", arrays("data.npz", x=np.eye(2), y=np.array([{}, 1], object)), "pickled labels"),
    Case(FIND, "holds 3 samples, but y 2", arrays("data.npz", x=np.eye(3), y=[0, 1])),
    Case(FIND, "not finite", arrays("data.npz", x=[[1.0], [np.nan]], y=[0, 1]), "nan"),
    Case(FIND, "not finite", arrays("data.npz", x=[[1.0], [np.inf]], y=[0, 1]), "infinity"),
    Case(FIND, "not of shape", arrays("data.npz", x=3.0, y=[0])),
    Case(FIND, "1 or 3 channels", arrays("data.npz", x=np.zeros((4, 8, 8, 5), np.uint8), y=[0, 1, 0, 1])),
    Case(FIND, "at most 63 bits", arrays("data.npz", x=np.eye(2), y=np.array([2**63, 2**64 - 1], np.uint64))),
    Case(FIND, "names or whole numbers", arrays("data.npz", x=np.eye(2), y=[0.5, 1.5])),
    Case(FIND, "no label at sample", arrays("data.npz", x=np.eye(2), y=[np.nan, 1.0])),
    Case(FIND, "class|classes", arrays("data.npz", x=np.eye(4), y=[0, 0, 0, 0]), "one class"),
    Case(FIND, "samples", arrays("data.npz", x=np.zeros((0, 3)), y=np.zeros(0, int)), "no samples"),
    Case(FIND, "holds 'a' twice", arrays("data.npz", x=np.eye(2), y=[0, 1], class_names=["a", "a"])),
    Case(FIND, "need each other", arrays("data.npz", x=np.eye(2), y=[0, 1], x_test=np.eye(2))),
    Case(
        FIND,
        "x_test has samples of shape",
        arrays("data.npz", x=np.eye(2), y=[0, 1], x_test=np.eye(3), y_test=[0, 1, 1]),
    ),
    Case(
        f"{TABLE} --group-column c",
        "column 'c' .* names no group",
        text("data.csv", "label,a,c\na,1,\nb,2,\n"),
        "no group",
    ),
    # Parquet columns of lists
    Case("find data.parquet -o new", r"cannot be features: 'v' \(lists\).*--embedding-column", lists, "lists"),
    Case("find data.parquet -o new --exclude v", r"features: 'w' \(lists\)", lists, "lists of different lengths"),
    Case("find data.parquet -o new --embedding-column w", "must hold lists of finite numbers", lists, "ragged vectors"),
    Case("find data.parquet -o new --group-column v", "group_columns .*holds cells of type", lists, "groups of lists"),
    Case("find data.parquet -o new --label-columns v,label", "hold a label or nothing in each cell", lists, "votes"),
    Case("find data.parquet -o new --true-label-column v", "labels are names or whole numbers", lists, "true lists"),
    Case("corrupt data.parquet --label-column v --rate 0.4", "labels are names or", lists, "lists to corrupt"),
    # Folders of images
    Case("find empty -o new", "holds no folders", lambda here: (here / "empty").mkdir()),
    Case("find photos -o new", "outside any class", raw("photos/a.png", b"x"), "loose image"),
    Case(
        "find loop -o new",
        "no such|holds no|Too many",
        lambda here: (here / "loop").symlink_to("loop"),
        "link to itself",
    ),
    # Tables
    Case(TABLE, "not a valid .csv|no column", text("data.csv", "")),
    Case(TABLE, "neither UTF-8 nor Windows-1252", raw("data.csv", b"label,a\n\xff\x81,1\n")),
    Case(TABLE, "not a valid .csv", text("data.csv", "label,a\n1,2,3,4\n5,6,7,8\n"), "cells beyond the last column"),
    Case(TABLE, "has no column 'label'", text("data.csv", "a,b\n1,2\n")),
    Case(TABLE, "commas separate the columns of a .csv", text("data.csv", "label;a\nx;1\ny;2\n"), "semicolons"),
    Case(TABLE, "tabs those of a .tsv", text("data.csv", "label\ta\nx\t1\ny\t2\n"), "tabs in a .csv"),
    Case("find hf: -o new", "hf: names no data set; write hf:USER/NAME", name="hf: without a name"),
    Case(TABLE, "no columns beside the labels", text("data.csv", "label\na\nb\n")),
    Case(TABLE, "rows|samples", text("data.csv", "label,a\n"), "no rows"),
    Case(f"{TABLE} --label-column none", "has no column 'none'"),
    Case(f"{TABLE} --feature-column none", "has no column 'none'"),
    Case(f"{TABLE} --image-column none", "has no column 'none'"),
    Case(f"{TABLE} --text-column none", "has no column 'none'"),
    Case(f"{TABLE} --embedding-column none", "has no column 'none'"),
    Case(f"{TABLE} --true-label-column none", "has no column 'none'"),
    Case(f"{TABLE} --embedding-column v", "v", text("data.csv", f"label,v\na,{DEEP}\nb,[1]\n"), "deep embedding"),
    Case(f"{TABLE} --embed nothing", "needs text_column"),
    Case(f"{TABLE} --text-column a --embed nothing", "embed must be named"),
    Case(f"{TABLE} --text-column a --embed no_such_module:f", "no_such_module"),
    Case("find data.csv.gz -o new", "cannot read", raw("data.csv.gz", b"\x1f\x8b\x08 torn")),
    Case("find data.parquet -o new", "not a valid .parquet|cannot read", raw("data.parquet", b"PAR1 and no more PAR1")),
    Case("find data.parquet -o new", "not a valid .parquet", parquet_of_broken_metadata("{"), "torn metadata"),
    Case("find data.parquet -o new", "not a valid .parquet", parquet_of_broken_metadata(DEEP), "deep metadata"),
    Case(
        "find data.parquet -o new",
        "not a valid .parquet",
        parquet_of_broken_metadata('{"index_columns": ["z"]}'),
        "forged metadata",
    ),
    Case(
        "find data.parquet -o new --backbone none",
        "bytes|image|can be read",
        lambda here: parquet(here, label=["a", "b"], image=[b"x", b"y"]),
        "bytes that are no images",
    ),
    # Labels of another file
    Case(f"{FIND} --labels none.csv", "no such file"),
    Case(f"{FIND} --labels labels.csv", "no column 'label'", text("labels.csv", "id,a\n0,1\n")),
    Case(f"{FIND} --labels labels.csv", "which is not in", text("labels.csv", "id,label\n99,0\n"), "unknown id"),
    Case(f"{FIND} --labels labels.csv", "which is no class", text("labels.csv", "id,label\n0,cow\n"), "unknown class"),
    Case(f"{FIND} --labels labels.csv", "has no label in row", text("labels.csv", "id,label\n0,\n"), "no label"),
    Case(f"{FIND} --labels labels.npz", "not a file of noisy labels", raw("labels.npz", b"PK")),
    Case(f"{FIND} --labels labels.json", "not a valid .json", text("labels.json", DEEP), "deep labels"),
    Case(f"{FIND} --labels pipe.csv", "is a pipe", pipe("pipe.csv")),
    Case(
        "find two.npz -o new --labels labels.csv",
        "which is no class",
        both(arrays("two.npz", x=np.eye(4), y=["a", "a ", "a", "a "]), text("labels.csv", "id,label\n0, a\n")),
        "classes that differ by a space",
    ),
    # Human labels of CIFAR
    Case(
        "find cifar10n -o new --data-root .",
        "is not a dict of whole-number arrays",
        pickle_of_shared_tuples,
        "pickle of 2**60 values",
    ),
    Case(
        "find cifar10n -o new --data-root .",
        "not a dict of whole-number arrays|cannot read",
        raw("CIFAR-10_human.pt", b"x"),
    ),
    Case("find cifar10n -o new --data-root . --noise loud", "noise of cifar10n"),
    # embed
    Case("embed data.npz", "image|text|embed"),
    Case("embed photos -o out.csv", "embeddings are written as"),
    Case("embed photos -o old.npz", "exists; --overwrite", raw("old.npz", b"")),
    Case("embed photos --engine mars", "mars"),
    Case("embed none", "no such file or folder"),
    # predict
    Case("predict none data.npz", "holds no model"),
    Case("predict model none", "no such file"),
    Case("predict model wrong.npz", "has 3 features", arrays("wrong.npz", x=np.eye(3))),
    Case(
        "predict model large.npz",
        "is not finite",
        both(
            arrays("large.npz", x=np.full((2, 4), 3e38, np.float32)),
            facts("model/model.json", transform={"kind": "Standardize", "mean": [0.0] * 4, "std": [1e-3] * 4}),
        ),
    ),
    Case("predict model data.npz --device meta", "device must be"),
    Case("predict model data.npz --device abacus", "device must be"),
    Case("predict model data.npz -o out.txt", "must end in"),
    Case("predict model data.npz -o data.npz", "must end in|is the data"),
    Case("predict model data.npz -o model/run.json", "a file of the run itself"),
    Case("predict model data.npz -o none/out.csv", "cannot write"),
    Case(f"predict model data.npz -o {LONG}.csv", "name too long", name="long name of predictions"),
    Case("predict model data.npz --part validation", "has no array|no validation"),
    Case("predict model data.npz --part all", "part is one of"),
    Case("predict model data.csv -o data.csv", "is the data itself; name another file"),
    Case("predict model photos", "vectors"),
    Case("predict model data.npz", "are not finite", not_finite, "nan weights"),
    Case("predict model data.npz", "nested too deeply", text("model/model.json", DEEP), "deep model.json"),
    Case("predict model data.npz", "must be an object", text("model/model.json", "[]"), "model.json is a list"),
    Case("predict model data.npz", "no run folder", gone("model/model.json"), "no model.json"),
    Case("predict model data.npz", "holds no model", raw("model/model.safetensors", b"\xff" * 64), "damaged weights"),
    Case("predict model data.npz", "is a pipe", pipe("model/model.safetensors"), "weights are a pipe"),
    Case("predict model data.npz", "is a pipe", pipe("model/model.json"), "model.json is a pipe"),
    Case("predict model data.npz", "--trust-code", facts("model/model.json", model="own:net"), "code in a run folder"),
    Case(
        "predict model data.npz",
        "--trust-code",
        facts("model/model.json", backbone={"name": "own:net", "takes": "image", "digest": ""}),
        "code in a backbone",
    ),
    Case("predict model data.npz", "input_shape", facts("model/model.json", input_shape=[-1]), "negative shape"),
    Case("predict model data.npz", "input_shape", facts("model/model.json", input_shape="x"), "shape of text"),
    Case("predict model data.npz", "classes", facts("model/model.json", classes=3), "no classes"),
    Case(
        "predict model data.npz",
        "transform",
        facts("model/model.json", transform={"kind": "Standardize", "mean": "x", "std": [1]}),
        "transform of text",
    ),
    Case(
        "predict model data.npz",
        "std above 0",
        facts("model/model.json", transform={"kind": "Standardize", "mean": [0.0] * 4, "std": [0.0] * 4}),
        "deviation 0",
    ),
    Case(
        "predict model data.csv",
        "encoding",
        facts(
            "model/model.json",
            encoding={"columns": [{"name": "a", "kind": "category", "other": 1000000000}], "notes": []},
        ),
        "huge encoding",
    ),
    # report
    Case("report none", "is no folder"),
    Case("report photos", "holds no findings"),
    Case("report run -o data.csv", "is there already"),
    Case("report run", "nested too deeply", text("run/data.json", DEEP), "deep data.json"),
    Case("report run", "cannot be used", text("run/run.json", "[]"), "run.json is a list"),
    Case("report run", "findings", text("run/findings.json", DEEP), "deep findings.json"),
    Case("report run", "findings", raw("run/findings.parquet", b"PAR1"), "damaged findings"),
    # apply
    Case("apply none", "holds no findings"),
    Case("apply run --copy a --link b", "exclude each other"),
    Case("apply run --hard", "--hard goes with --link"),
    Case("apply run -o out.txt", "must end in"),
    Case("apply run -o run/findings.csv", "a file of the run itself"),
    Case("apply run -o data.csv", "is there already"),
    Case("apply run --min-confidence 2", "'--min-confidence'"),
    Case("apply run --copy photos", "inside the data folder"),
    Case("apply run --copy photos/new", "inside the data folder"),
    Case("apply run --copy old", "is not empty", raw("old/a", b"")),
    Case("apply run --copy data.csv", "is a file"),
    Case("apply run --copy new --root none", "is not there"),
    Case("apply run --copy new -o none/out.csv", "cannot write", name="table that cannot be written beside a tree"),
    Case("apply run --decisions none.csv", "no such file"),
    Case("apply run --decisions own.csv", "which is not in the run", text("own.csv", "id,label\nx,cat\n")),
    Case("apply run --decisions own.json", "not a valid .json", text("own.json", DEEP), "deep decisions"),
    Case("apply run --decisions pipe.csv", "is a pipe", pipe("pipe.csv")),
    Case("apply run", "cannot be read", text("run/data.json", '{"root": "x", "held_out": [{"id"'), "torn data.json"),
    Case("apply run", "cannot be used: held_out", facts("run/data.json", held_out=[3]), "forged held_out"),
    Case("apply run", "is not complete", both(gone("run/data.json"), text("run/run.json", "{}")), "no data.json"),
    Case(
        "apply run", "cannot be used for the decisions", text("run/review.sqlite", "not a database" * 99), "no database"
    ),
    Case("apply run", "is a folder", lambda here: (here / "run/review.sqlite").mkdir(), "folder of decisions"),
    Case("apply run", "is a pipe", pipe("run/review.sqlite"), "pipe of decisions"),
    Case("apply run", "does not fit the findings", decisions_of_other_data, "decisions about other data"),
    Case("apply run", "its table decisions holds", decided("position = 600"), "decision about no sample"),
    Case("apply run", "its table decisions holds", decided("label = 9, action = 'relabel'"), "label of no class"),
    Case("apply run", "is damaged|malformed|not a database", torn_decisions, "torn decisions"),
    Case("apply run", "cannot be used: decided", facts("run/data.json", decided=[3]), "forged earlier decisions"),
    Case("apply run --copy new", "lies outside the images' folder", outside("../secret.png"), "path with .."),
    Case("apply run --copy new", "lies outside the images' folder", outside("{here}/secret.png"), "absolute path"),
    *(
        Case(f"apply run --decisions own.{ending}", message, text(f"own.{ending}", content), name)
        for name, ending, message, content in (
            ("tasks of another kind", "json", "as an export of Label Studio", '[{"annotations": []}, 7]'),
            ("choice of another kind", "json", "as an export of Label Studio", LABEL_STUDIO.format('"value"')),
            ("choice that is no text", "json", "has a label that is no text", LABEL_STUDIO.format('{"choices": [{}]}')),
            ("two choices", "json", "labels 'cat' and 'dog'", LABEL_STUDIO.format('{"choices": ["cat", "dog"]}')),
            (
                "two tags of CVAT",
                "xml",
                "labels 'cat' and 'dog': a sample has one",
                '<a><image name="cat/0.png"><tag label="cat"/><tag label="dog"/></image></a>',
            ),
            ("samples of another kind", "json", "as an export of FiftyOne", '{"samples": [7]}'),
            ("no label of FiftyOne", "json", "no sample in .* has a label in the field", '{"samples": [{}]}'),
            ("CVAT without decisions", "xml", "has no decisions", "<annotations/>"),
            ("torn export of CVAT", "xml", "cannot be read as an export of CVAT", "<annotations><image"),
            ("entities in CVAT", "xml", "cannot be read as an export of CVAT", BOMB),
            ("CVAT of other images", "xml", "not in the run", '<a><image name="x"><tag label="cat"/></image></a>'),
        )
    ),
    # check, audit, several annotators, extend
    Case("check run data.csv --fail-above two", "such as 2% or 0.02, got 'two'"),
    Case("check run data.csv --fail-on leak", "--fail-on takes new-issues, .*, got 'leak'"),
    Case("check run data.csv --baseline none.json", "the baseline 'none.json' cannot be read"),
    Case(
        "check run data.csv --baseline b.json", "cannot be read", text("b.json", '{"suspects": 3}'), "forged baseline"
    ),
    Case("check run data.csv --baseline b.json", "cannot be read", text("b.json", DEEP), "deep baseline"),
    Case("check run data.csv --baseline b.json", "is a pipe", pipe("b.json"), "pipe of a baseline"),
    Case("check none data.csv", "holds no model|is no run|no finished run"),
    Case("check run data.csv", "holds no model|is no run|no finished run"),
    Case("check model none.csv", "no such file"),
    Case("check model data.csv", "model.json' cannot be read", text("model/model.json", "{"), "torn model of a check"),
    Case("check model data.csv -o data.csv", "is a file"),
    Case("check model data.csv --sarif data.csv", "there already, and no earlier output of --sarif"),
    Case("check model data.csv --junit run/findings.parquet", "there already, and no earlier output of --junit"),
    Case("check model data.csv --junit pipe", "is a pipe", pipe("pipe"), "pipe of a report"),
    Case("audit none", "holds no findings"),
    Case("audit run -n 0", "'--number' / '-n'"),
    Case("audit run --answers none.csv", "no such file"),
    Case("audit run --answers data.csv", "has no column|'id'"),
    Case("audit run --answers a.csv", "is not one of the labels to check", text("a.csv", "id,label\nx,cat\n")),
    Case(
        "audit run --answers a.csv",
        "id 'cat/0.png' has the label 'cat' and the label 'wrong'",
        text("a.csv", "id,label\ncat/0.png,cat\ncat/0.png,wrong\n"),
        "two answers",
    ),
    Case("audit run --answers pipe.csv", "is a pipe", pipe("pipe.csv")),
    Case("audit run -n 6 --answers a.csv", "label 'fish' is no class", text("a.csv", "id,label\ncat/0.png,fish\n")),
    Case("audit run -o out.txt", r"\.csv"),
    Case("audit run -o data.csv", "is there already"),
    Case("audit run", "cannot be read", text("run/audit.json", "{"), "torn audit"),
    Case("audit run", "is a pipe", pipe("run/audit.json"), "pipe of an audit"),
    Case("audit run", "cannot be used: fingerprint", text("run/audit.json", '{"positions": 3}'), "forged audit"),
    Case("report run", "cannot be used: copies", text("run/check.json", '{"copies": [3]}'), "forged check"),
    Case("report run", "is a pipe", pipe("run/check.json"), "pipe of a check"),
    Case(
        "report run",
        "near_duplicates.0: there are 0 ids and 1 labels",
        text("run/data.json", '{"near_duplicates": [{"ids": [], "labels": ["x"]}]}'),
        "labels of no duplicates",
    ),
    Case("find data.csv -o new --label-columns a,none", "has no column 'none'"),
    Case("find data.csv -o new --label-columns a,b,a", "names a column twice: a, b, a"),
    Case("find data.csv -o new --label-columns a,b --label-column label", "label_columns"),
    Case("find data.npz -o new --label-columns a,b", "has no meaning"),
    Case("find data.csv -o new --extend none", "holds no findings"),
    Case("find data.csv -o run --extend run", "are the same run folder"),
    Case("find data.csv -o new --extend run", "does not say where its data are"),
    # export
    Case("export run --to magic -o x", "--to is one of csv, parquet, .*, hf, onnx, got 'magic'"),
    Case("export none --to csv -o x.csv", "holds no findings"),
    Case("export run --to csv -o x.csv --root photos", "--root is for hf, onnx, not for csv"),
    Case("export run --to cleanlab -o x.csv --issues", "--issues is for csv, parquet, json, label-studio, fiftyone, n"),
    Case("export run --to csv -o x.csv --image-prefix x", "--image-prefix is for label-studio, not for csv"),
    Case("export run --to csv -o x.json", "must end in .csv, got 'x.json'"),
    Case("export run --to cleanlab -o x.json", "must end in .csv, got 'x.json'"),
    Case("export run --to csv -o none/x.csv", "cannot write 'none/x.csv'"),
    Case("export run --to csv -o run/findings.csv", "a file of the run itself"),
    Case("export run --to label-studio -o x.csv", "imports .json"),
    Case("export run --to hf -o photos", "not empty"),
    Case("export run --to torchscript -o x.pt", "--to is one of"),
    Case("export model --to onnx --data data.npz -o data.npz --overwrite", "'data.npz' is the data itself"),
    Case("export run --to onnx -o x.onnx", "holds no model"),
    Case("export model --to onnx -o none/x.onnx", "cannot write"),
    Case(
        "export model --to onnx -o x.onnx",
        "--trust-code",
        facts("model/model.json", model="own:net"),
        "code in an ONNX export",
    ),
    # corrupt
    Case("corrupt none.npy", "no such file"),
    Case("corrupt data.csv --rate 2", "rate"),
    Case("corrupt data.csv --kind odd", "odd"),
    Case("corrupt data.csv", "symm noise needs a rate"),
    Case("corrupt data.csv --rate 0.4 --label-column q", "no column 'q'"),
    Case("corrupt data.csv --rate 0.4 --count some", "'exact' or 'bernoulli', got 'some'"),
    Case("corrupt data.npz --rate 0.4 --num-classes 2", "0..1, got 2 at position 2"),
    Case("corrupt data.csv --rate 0.4 -o x.csv", "must end in .npz"),
    Case("corrupt data.csv --rate 0.4 -o none/x.npz", "no such directory"),
    Case("corrupt data.npz --rate 0.4 -o data.npz --force", "a file that this command reads"),
    Case("corrupt data.csv --rate 0.4 -o x.npz --table data.csv --force", "a file that this command reads"),
    Case(
        "corrupt data.csv --rate 0.4 -o x.npz --table t.csv",
        "'noisy_label' already",
        text("data.csv", "label,noisy_label\na,b\nb,a\n"),
        "table with noisy labels",
    ),
    Case("corrupt data.csv --rate 0.4 -o x.npz --table t.parquet", "must end in .csv"),
    Case("corrupt labels.npy --rate 0.4", "not a valid .npy|damaged", npy("((((("), "header of brackets"),
    Case(
        "corrupt labels.npy --rate 0.4",
        "not a valid .npy|damaged|memory",
        npy("{'descr': '<i8', 'fortran_order': False, 'shape': (9999999999999,)}"),
        "header of a huge shape",
    ),
    Case(
        "corrupt labels.npy --rate 0.4",
        "not a valid .npy|damaged",
        npy("{'descr': '<q9', 'fortran_order': False, 'shape': (2,)}"),
        "header of no type",
    ),
    Case("corrupt data.npz --rate 0.4", "not a valid .npz|damaged", encrypted, "encrypted labels"),
    Case("corrupt data.csv --kind asymm --rate 0.4 --mapping {", "not valid JSON"),
    Case(
        "corrupt data.csv --kind asymm --rate 0.4 --mapping m.json",
        "nested too deeply",
        text("m.json", '{"a":' + DEEP),
        "deep mapping",
    ),
    Case("corrupt data.csv --kind matrix --matrix m.csv", "numbers only", text("m.csv", "a,b\nc,d\n")),
    Case("corrupt pipe.npy --rate 0.4", "is a pipe", pipe("pipe.npy")),
    Case("corrupt pipe.txt --rate 0.4", "is a pipe", pipe("pipe.txt")),
    Case(
        "find photos -o new --labels own.csv",
        "holds the decisions of a review, not the labels of all samples",
        text("own.csv", "id,given_label,action,label,reviewer,decided_at\ncat/0.png,cat,keep,cat,Ann,now\n"),
        "export of a review as labels",
    ),
    # review
    Case("review", "Missing argument"),
    Case("review none", "holds no findings"),
    Case("review data.csv", "holds no findings|is a file"),
    Case("review photos", "holds no findings"),
    Case("review model", "holds no findings", name="run without findings"),
    Case("review run --port 70000 --no-open", "'--port'"),
    Case("review run --port x --no-open", "'--port'"),
    Case("review run --port {port} --no-open", "cannot listen on 127.0.0.1"),
    Case("review run --host 203.0.113.1 --token 0123456789abcdef --no-open", "cannot listen on 203.0.113.1"),
    Case("review run --host 0.0.0.0 --no-open", "choose a secret with --token"),
    Case("review run --token short --no-open", "at least 16 characters, got 5"),
    Case("review run --no-open", "cannot be used", text("run/review.sqlite", "not a database" * 99), "bad decisions"),
    Case("review run --no-open", "is a folder", lambda here: (here / "run/review.sqlite").mkdir(), "decisions folder"),
    Case("review run --no-open", "is a pipe", pipe("run/review.sqlite"), "decisions pipe"),
    Case("review run --no-open", "does not fit the findings", decisions_of_other_data, "foreign decisions"),
    Case("review run --no-open", "by another version of jnpl", database("PRAGMA user_version = 99"), "newer decisions"),
    Case("review run --no-open", "of another program", database("CREATE TABLE mine (a)"), "database of others"),
    Case("review run --no-open", "its table decisions holds", decided("position = 600"), "decision on nothing"),
    Case("review run --no-open", "is damaged|malformed|not a database", torn_decisions, "half a database"),
    Case("review run --no-open", "cannot be read", text("run/data.json", '{"decided": [{"id"'), "torn facts"),
    Case("review run --no-open", "nested too deeply", text("run/findings.json", DEEP), "deep findings"),
    Case("review run --no-open", "is a pipe", pipe("run/run.json"), "run.json pipe of a review"),
    Case("review run --no-open", "is a pipe", pipe("run/data.json"), "data.json pipe of a review"),
    Case("review run --no-open", "nested too deeply", text("run/run.json", DEEP), "deep run.json of a review"),
    Case("review run --no-open", "nested too deeply", text("run/data.json", DEEP), "deep data.json of a review"),
    Case("review run --no-open", "cannot be used: seed", text("run/run.json", '{"seed": "x"}'), "forged seed"),
    Case(
        "review run --no-open",
        "options in data.json cannot be used: seed",
        facts("run/data.json", options={"data": "photos", "out": "run", "seed": "x"}),
        "forged options",
    ),
    Case(
        "review run --no-open",
        "options in data.json cannot be used: data",
        facts("run/data.json", options={"out": "run"}),
        "options without data",
    ),
    Case("find data.npz -o new --review none", "holds no findings"),
    Case("find data.npz -o new --review model", "holds no findings"),
    Case("find data.npz -o new --review run", "has no decisions"),
    Case("find data.npz -o new --review run", "does not fit the findings", decisions_of_other_data, "review of others"),
    Case("find data.npz -o new --review run", "has a class 'cat' that", decided(), "review of other classes"),
    Case("train data.npz -o new --review run", "malformed|damaged|not a database", torn_decisions, "torn review"),
    # demo, reproduce, bench
    Case("demo -o data.csv", "is a file"),
    Case("demo -o photos", "something else than an earlier demo"),
    Case("demo --seeds 0", "'--seeds'"),
    Case(f"demo --seeds {'9' * 30}", "'--seeds'"),
    Case("reproduce fig9", "fig9"),
    Case("reproduce fig1 --scale huge", "there is no scale"),
    Case("reproduce fig1 --out data.csv", "is a file"),
    Case("reproduce fig1 --out mine", "not of jnpl reproduce", text("mine/index.html", "mine")),
    Case(
        "reproduce fig1 --out mine",
        "not of jnpl reproduce",
        both(text("mine/index.html", "mine"), text("mine/results.jsonl", "")),
        "page beside results",
    ),
    Case("reproduce fig1 --out mine", "not of jnpl reproduce", text("mine/reproduce.json", DEEP), "deep summary"),
    Case(
        "reproduce fig1 --out mine",
        "fig1.png' is not of jnpl reproduce",
        text("mine/fig1.png", "mine"),
        "picture of others",
    ),
    Case("reproduce fig1 --weights none.pt", "--weights are for table2"),
    Case("reproduce table2 --scale paper --weights none.pt", "there is no file 'none.pt'"),
    Case("reproduce table2 --scale tiny --out new", "table2 cannot be made at scale tiny: Clothing1M is not part"),
    Case("reproduce fig1 --scale tiny --out new --only-draw", "there is no result of scale tiny"),
    Case("reproduce fig1 --out new --data-root nowhere", "there is no 'nowhere': --data-root is the folder"),
    Case(f"reproduce fig1 --seeds {'9' * 30}", "'--seeds'"),
    Case("bench -o new --rows magic", "there is no variant 'magic'"),
    Case("bench -o new --data none", "data"),
    Case("bench -o new --noise loud:x", "--noise takes"),
    Case("bench -o new --noise symm:7 --data iris --rows ce", "rate"),
    Case(f"bench -o new --seeds {'9' * 30}", "'--seeds'"),
    Case("bench -o new --noise symm", "a rate above 0 goes with symm"),
    Case("bench -o new --noise gauss:0.1", "noise: Input should be 'symm'"),
    Case("bench -o new --data iris --pixels 16", "pixels and padding are for cifar10"),
    Case("bench -o new --data iris --rows ce --images 1000", "a run needs 1,000 samples of iris, there are 112"),
    Case("bench -o new --data iris --rows ce --gpus 0.5", "--gpus goes with --engine ray"),
    Case("bench -o new --data iris --rows ce --address here:6379", "--address goes with --engine ray"),
    Case("bench -o new --engine mars --data iris --rows ce", "mars"),
    Case("bench -o new --net resnet99 --data iris --rows ce", "unknown network"),
    Case("bench -o mine --data iris --rows ce", "not of jnpl bench", text("mine/table.md", "mine")),
    Case("bench status none", "there is no experiment"),
    Case("bench status grid", "cannot be read", text("grid/work/experiment.json", DEEP), "deep experiment"),
    Case(
        "bench status grid",
        "cannot be used: results",
        text(
            "grid/work/experiment.json",
            '{"format": "jnpl experiment 1", "results": 3, "engine": "local", "jobs": 1, "runs": []}',
        ),
        "forged experiment",
    ),
    Case("bench --rows ce status grid", "is an option of jnpl bench"),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with good data of every kind, and good runs."""
    here = tmp_path_factory.mktemp("good")
    photos(here / "photos", each=3)
    x = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    np.savez(here / "data.npz", x=x, y=np.arange(12) % 3)
    (here / "data.csv").write_text("label,a,b\n" + "".join(f"{'xyz'[at % 3]},{at},{at % 5}\n" for at in range(12)))
    findings(paths=PATHS).save(here / "run")
    (here / "run" / "data.json").write_text(json.dumps({"root": str(here / "photos")}))
    vector_model(here / "model")
    return here


@pytest.fixture(scope="module")
def taken_port():
    """A port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def snapshot(folder):
    """Every path in a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("case", CASES, ids=[case.name or case.args[:60] for case in CASES])
def test_one_line_and_nothing_written(case, template, taken_port, tmp_path, monkeypatch, capsys):
    here = tmp_path / "here"
    shutil.copytree(template, here, symlinks=True)
    (here / "run" / "data.json").write_text(json.dumps({"root": str(here / "photos")}))
    monkeypatch.chdir(here)
    monkeypatch.setenv("JNPL_DATA", str(tmp_path / "data"))
    case.prepare(here)
    before = snapshot(here)
    code, out, err = jnpl(capsys, *case.args.replace("{port}", str(taken_port)).split())
    assert (code, out) == (2, ""), err
    assert err.startswith("jnpl: "), err
    assert err.count("\n") == 1, err
    assert len(err) <= 310, len(err)
    assert re.search(case.message, err), err
    assert snapshot(here) == before
