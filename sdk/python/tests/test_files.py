"""Directories in and out, and archives that try to get outside."""

import io
import os
import tarfile
from pathlib import Path

import pytest
from stead import Client, NotFound, Sandbox, SteadError
from stead._archive import unpack


def test_a_directory_comes_back_as_it_was(box: Sandbox, tmp: Path) -> None:
    source = tmp / "source"
    (source / "deep/er").mkdir(parents=True)
    (source / "deep/er/data.bin").write_bytes(bytes(range(256)))
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    os.symlink("deep/er/data.bin", source / "link")
    (source / "skip.pyc").write_text("")
    box.files.upload(source, "app", exclude=["*.pyc"])
    assert box.commands.run("./run.sh", cwd="app").stdout == "ran\n"
    box.files.download("app", tmp / "copy")
    assert (tmp / "copy/deep/er/data.bin").read_bytes() == bytes(range(256))
    assert os.access(tmp / "copy/run.sh", os.X_OK)
    assert os.readlink(tmp / "copy/link") == "deep/er/data.bin"
    assert not (tmp / "copy/skip.pyc").exists()


def test_one_file_in_and_out(box: Sandbox, tmp: Path) -> None:
    (tmp / "big.bin").write_bytes(b"0123456789abcdef" * 100_000)
    box.files.upload(tmp / "big.bin")
    box.files.upload(tmp / "big.bin", "data/other.bin")
    assert box.files.stat("data/other.bin")["size"] == 1_600_000
    box.files.download("big.bin", tmp / "back.bin")
    assert (tmp / "back.bin").read_bytes() == (tmp / "big.bin").read_bytes()


def test_a_sandbox_starts_with_a_directory_or_an_archive(client: Client, tmp: Path) -> None:
    (tmp / "project").mkdir()
    (tmp / "project/main.py").write_text("print('hi')\n")
    with Sandbox.create(dir=tmp / "project", client=client) as box:
        assert box.commands.run("python3 main.py").stdout == "hi\n"
        assert box.diff() == ""
        box.export(tmp / "files.tar")
    with Sandbox.create(bundle=tmp / "files.tar", client=client) as box:
        assert box.files.read("main.py") == "print('hi')\n"


def test_changes_are_applied_or_refused(client: Client, tmp: Path) -> None:
    project = tmp / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    with Sandbox.create(dir=project, client=client) as box:
        box.files.write("a.txt", "two\n")
        assert box.apply(project, check=True) == ["a.txt"]
        assert (project / "a.txt").read_text() == "one\n"
        (project / "a.txt").write_text("changed meanwhile\n")
        with pytest.raises(SteadError) as raised:
            box.apply(project)
        assert raised.value.code == "not_applied"
        assert (project / "a.txt").read_text() == "changed meanwhile\n"


def test_names_with_special_characters(box: Sandbox) -> None:
    for name in ("a b.txt", "ä/ü?.txt", "100%.txt", "#1.txt"):
        box.files.write(name, name)
        assert box.files.read(name) == name
        assert box.files.exists(name)
    assert box.files.read("/workspace/a b.txt") == "a b.txt"


def test_missing_files(box: Sandbox) -> None:
    with pytest.raises(NotFound):
        box.files.read("none")
    with pytest.raises(NotFound):
        box.files.stat("none")
    box.files.mkdir("folder")
    with pytest.raises(SteadError):
        box.files.read("folder")
    box.files.write("file", "[]")
    with pytest.raises(SteadError) as raised:
        box.files.list("file")
    assert raised.value.code == "not_a_directory"


def archive(*entries: "tuple[str, str]") -> io.BytesIO:
    """A tar with files, and with links where the second text starts with an arrow."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, text in entries:
            member = tarfile.TarInfo(name)
            if text.startswith("->"):
                member.type, member.linkname = tarfile.SYMTYPE, text[2:]
                tar.addfile(member)
            else:
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text.encode()))
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "entries",
    [
        [("../out.txt", "x")],
        [("/tmp/out.txt", "x")],
        [("a/../../out.txt", "x")],
        [("link", "->/etc")],
        [("link", "->../outside")],
        [("a/link", "->../../outside")],
        [("link", "->.."), ("link/out.txt", "x")],
    ],
)
def test_an_archive_cannot_get_outside(tmp: Path, entries: "list[tuple[str, str]]") -> None:
    (tmp / "target").mkdir()
    with pytest.raises((SteadError, OSError)):
        unpack(archive(*entries), tmp / "target")
    assert [path.name for path in tmp.iterdir()] == ["target"]
    assert not any(path.is_symlink() for path in (tmp / "target").rglob("*"))


def test_an_archive_does_not_write_through_links_that_are_there(tmp: Path) -> None:
    (tmp / "target").mkdir()
    (tmp / "outside").mkdir()
    os.symlink(tmp / "outside", tmp / "target/link")
    with pytest.raises(SteadError):
        unpack(archive(("link/out.txt", "x")), tmp / "target")
    assert not list((tmp / "outside").iterdir())
