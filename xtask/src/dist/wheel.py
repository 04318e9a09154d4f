"""Packs a folder as a wheel: wheel.py FOLDER FILE RECORD TIME LEVEL. The bytes depend only on the files."""

import base64
import hashlib
import pathlib
import sys
import time
import zipfile

folder, file, record, seconds, level = sys.argv[1:]
folder = pathlib.Path(folder)
when = time.gmtime(int(seconds))[:6]
lines = []

with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=int(level)) as wheel:

    def add(name: str, content: bytes, mode: int) -> None:
        entry = zipfile.ZipInfo(name, when)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3
        entry.external_attr = (0o100000 | mode) << 16
        wheel.writestr(entry, content)

    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, content = path.relative_to(folder).as_posix(), path.read_bytes()
        add(name, content, 0o755 if path.stat().st_mode & 0o100 else 0o644)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    add(record, "\n".join([*lines, f"{record},,", ""]).encode(), 0o644)
