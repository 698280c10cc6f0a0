"""Whole or not at all: what is at the path before, after, and when something goes wrong on the way."""

import os
import pickle
import stat
import subprocess
import sys

import pytest
from tests.helpers.marks import posix

from jnpl.internal import locks
from jnpl.internal.errors import InputError, UnwritableError
from jnpl.internal.files import original, printable, replacing, require_file, reserve, write_text


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_the_draft_is_hidden_beside_the_target_and_takes_its_place(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with replacing(target) as draft:
        assert draft.name == f".a.txt.{os.getpid()}.tmp"
        assert names(tmp_path) == sorted([draft.name, "a.txt"])
        draft.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_a_path_may_be_text_and_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text("a.txt", "new")
    assert names(tmp_path) == ["a.txt"]


def test_text_is_utf_8_with_its_own_line_ends(tmp_path):
    write_text(tmp_path / "a.txt", "caf\u00e9\n\u2192\r\n")
    assert (tmp_path / "a.txt").read_bytes() == "caf\u00e9\n\u2192\r\n".encode()


@pytest.mark.parametrize("error", [RuntimeError("ours"), KeyboardInterrupt(), ValueError("also ours")])
@pytest.mark.parametrize("before", ["old", None])
def test_an_exception_inside_passes_and_leaves_what_was_there(tmp_path, error, before):
    target = tmp_path / "a.txt"
    if before is not None:
        target.write_text(before)

    def interrupted():
        with replacing(target) as draft:
            draft.write_text("half of the ne")
            raise error

    with pytest.raises(type(error)) as raised:
        interrupted()
    assert raised.value is error
    assert names(tmp_path) == ([] if before is None else ["a.txt"])
    assert before is None or target.read_text() == before


def test_text_that_cannot_be_encoded_leaves_what_was_there(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a.txt", "new \udce9")
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


@posix
def test_a_target_that_cannot_be_written_is_an_input_error_in_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    reasons = {
        "folder": "Is a directory",
        "missing/a.txt": "No such file or directory",
        "file/a.txt": "Not a directory",
        "x" * 300: "File name too long",
    }
    for name, reason in reasons.items():
        path = tmp_path / name
        with pytest.raises(InputError) as raised:
            write_text(path, "new")
        assert str(raised.value) == f"cannot write {str(path)!r}: {reason}"
    assert names(tmp_path) == ["file", "folder"]
    assert names(tmp_path / "folder") == []


def test_a_folder_without_a_name_is_an_input_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (".", "", ".."):
        with pytest.raises(InputError, match="cannot write"):
            write_text(path, "new")
    assert names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_an_input_error(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(InputError, match="Permission denied"):
        write_text(folder / "a.txt", "new")


def test_a_full_disk_is_an_input_error_and_leaves_what_was_there(tmp_path):
    resource = pytest.importorskip("resource", reason="no file size limit on Windows")
    write_text(tmp_path / "a.txt", "old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # the nearest thing to a full disk
    try:
        with pytest.raises(InputError, match=r"cannot write '.*a\.txt': File too large"):
            write_text(tmp_path / "a.txt", "new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_an_error_of_another_file_keeps_its_own_name(tmp_path):
    other = tmp_path / "other.txt"
    with pytest.raises(FileNotFoundError) as raised, replacing(tmp_path / "a.txt") as draft:
        draft.write_text(other.read_text())
    assert raised.value.filename == str(other)
    assert not isinstance(raised.value, InputError)
    with pytest.raises(InputError, match=r"b\.txt"), replacing(tmp_path / "a.txt"):
        write_text(tmp_path / "no" / "b.txt", "new")
    assert names(tmp_path) == []


def test_an_error_without_words_still_has_a_reason(tmp_path):
    with pytest.raises(InputError, match=r"a\.txt': two lines$"), replacing(tmp_path / "a.txt"):
        raise OSError("two\nlines")


def test_a_folder_that_cannot_be_flushed_does_no_harm(tmp_path, monkeypatch):
    flush = os.fsync

    def files_only(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(22, "Invalid argument")
        flush(fd)

    monkeypatch.setattr(os, "fsync", files_only)
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_the_error_is_of_the_system_too_and_survives_a_process_boundary():
    error = pickle.loads(pickle.dumps(UnwritableError("cannot write 'a.txt': no")))
    assert isinstance(error, InputError)
    assert isinstance(error, OSError)
    assert str(error) == "cannot write 'a.txt': no"


@posix
def test_a_planted_link_with_the_name_of_the_draft_is_not_followed(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / f".a.txt.{os.getpid()}.tmp").symlink_to(tmp_path / "mine.txt")
    write_text(tmp_path / "a.txt", "new")
    assert ((tmp_path / "mine.txt").read_text(), (tmp_path / "a.txt").read_text()) == ("mine", "new")
    assert not (tmp_path / "a.txt").is_symlink()


@posix
@pytest.mark.parametrize("name", ["n" * 255, "\u00e9" * 127], ids=["letters", "letters of two bytes"])
def test_a_name_as_long_as_names_may_be(tmp_path, name):
    write_text(tmp_path / name, "new")
    assert names(tmp_path) == [name]


@posix
def test_only_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe' is a pipe, not a file"):
        require_file(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a folder, not a file"):
        require_file(tmp_path)
    with pytest.raises(InputError, match="is a device, not a file"):
        require_file("/dev/null")
    assert require_file(tmp_path / "none") == tmp_path / "none"  # opening it says that it is not there


@posix
def test_the_space_of_a_sparse_file_is_reserved(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.write(b"head")
        file.truncate(1 << 20)
    reserve(tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    assert (content[:4], len(content)) == (b"head", 1 << 20)
    assert (tmp_path / "a").stat().st_blocks * 512 >= 1 << 20


def test_a_name_that_is_not_unicode_comes_back():
    name = os.fsdecode(b"caf\xe9/\xff.png")
    assert original(printable(name)) == name
    assert original("caf\u00e9") == "caf\u00e9"


@posix
def test_a_write_removes_what_killed_processes_have_left_for_its_file(tmp_path):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = tmp_path / f".labels.csv.{int(gone.stdout)}.tmp"
    running, other = tmp_path / f".labels.csv.{os.getppid()}.tmp", tmp_path / f".more.csv.{int(gone.stdout)}.tmp"
    for draft in (left, running, other):
        draft.write_text("half")
    with locks.holding(left):  # by a process of another machine or container
        with replacing(tmp_path / "labels.csv") as draft:
            assert locks.is_held(draft, together=True)
        assert left.exists()
    write_text(tmp_path / "labels.csv", "whole")
    assert [draft.exists() for draft in (left, running, other)] == [False, True, True]
