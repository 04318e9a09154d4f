"""Archives of directories. An archive from a sandbox is hostile."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, List, Optional, Sequence, Tuple, Union

from .errors import SteadError

_CHUNK = 1 << 20


def pack(directory: Union[str, "os.PathLike[str]"], exclude: Sequence[str], to: IO[bytes]) -> None:
    """Writes the files of a directory as a tar. `exclude` has patterns of names and of paths."""
    root = Path(directory)
    if not root.is_dir():
        raise SteadError(f"{root} is not a directory", code="not_a_directory")

    def keep(member: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
        path = member.name[2:] if member.name.startswith("./") else member.name
        name = path.rsplit("/", 1)[-1]
        if any(fnmatch.fnmatch(name, one) or fnmatch.fnmatch(path, one) for one in exclude):
            return None
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(fileobj=to, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(os.listdir(root)):
            tar.add(str(root / entry), arcname=entry, filter=keep)


def unpack(archive: IO[bytes], directory: Union[str, "os.PathLike[str]"]) -> None:
    """Unpacks a tar into a directory. No entry gets outside: a path with `..`, an absolute path and
    a path through a symbolic link are refused, and links that lead out are refused."""
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    links: List[Tuple[Path, str]] = []
    with tarfile.open(fileobj=archive, mode="r|*") as tar:
        for member in tar:
            target = inside(root, member.name)
            if target == root:
                continue
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.issym():
                _check_link(member.name, member.linkname)
                links.append((target, member.linkname))
            elif member.islnk():
                source = inside(root, member.linkname)
                _clear(target)
                shutil.copy2(str(source), str(target), follow_symlinks=False)
            elif member.isreg():
                _clear(target)
                content = tar.extractfile(member)
                if content is not None:
                    with open(target, "xb") as file:
                        shutil.copyfileobj(content, file, _CHUNK)
                    os.chmod(target, 0o755 if member.mode & stat.S_IXUSR else 0o644)
            else:
                raise SteadError(f"{member.name} is a special file", code="archive_refused")
    # Links come last, so that no entry of the archive is written through one.
    for target, to in links:
        _clear(target)
        os.symlink(to, target)


def inside(root: Path, name: str) -> Path:
    """Returns the path below the root, whose parents are real directories."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise SteadError(f"the path {name!r} leads out of the directory", code="archive_refused")
    current = root
    for part in path.parts[:-1]:
        current = current / part
        if current.is_symlink():
            raise SteadError(f"the path {name!r} goes through a symbolic link", code="archive_refused")
        current.mkdir(exist_ok=True)
    return root.joinpath(*path.parts)


def _check_link(name: str, to: str) -> None:
    depth = len(PurePosixPath(name).parts) - 1
    target = PurePosixPath(to)
    for part in target.parts:
        depth += -1 if part == ".." else 1
        if target.is_absolute() or depth < 0:
            raise SteadError(f"the link {name!r} leads out of the directory", code="archive_refused")


def _clear(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.is_file():
        target.unlink()


