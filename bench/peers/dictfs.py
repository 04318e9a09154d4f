"""A straightforward in-memory filesystem: a dict from path to file, the same tools, limits and results as stead-fs.

The peer of the row "memory backend". Written as one would write it first: no tricks, nothing left out.
Usage: dictfs.py OPERATIONS RESULTS, or dictfs.py WORK for the single operations. OPERATIONS has one JSON array [tool, arguments] per line; RESULTS gets what each call
returned, and the seconds each tool took in all are printed as JSON. Reading and writing those files is not measured.
"""

import hashlib
import json
import re
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone

WRITE_CHARS = 48_000
PATH_DEPTH = 16
SEGMENT_CHARS = 80
READ_LINES = 2_000
LIST_ENTRIES = 10_000
GLOB_MATCHES = 2_000
GREP_MATCHES = 2_000
SHOWN_CHARS = 1_000
NOW_MILLIS = 1_794_735_000_000


class ToolError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class File:
    text: str
    hash: str
    version: int
    created_at: int
    updated_at: int


def rfc3339(millis):
    moment = datetime.fromtimestamp(millis / 1000, tz=timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{millis % 1000:03d}Z"


def digest(text):
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def parse(path):
    segments = [segment.strip() for segment in path.strip().split("/")]
    segments = [segment for segment in segments if segment]
    if path.strip().startswith("/") and segments and segments[0] == "workspace":
        segments = segments[1:]
    for segment in segments:
        if segment in (".", ".."):
            raise ToolError("invalid_path", "Path segments may not include '.' or '..'.")
    return "/".join(segments)


def check_new(path):
    segments = path.split("/")
    if len(segments) > PATH_DEPTH:
        raise ToolError("invalid_path", f"Path depth exceeds the allowed limit ({PATH_DEPTH} segments).")
    for segment in segments:
        if not segment.isascii():
            raise ToolError("invalid_path", "Path segment must be ASCII text.")
        if any(ord(character) < 32 or ord(character) == 127 for character in segment):
            raise ToolError("invalid_path", "Path segments may not include control characters.")
        if len(segment) > SEGMENT_CHARS:
            raise ToolError("invalid_path", f"Path segments must be {SEGMENT_CHARS} characters or fewer.")


def glob_regex(pattern):
    out = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            out.append(".*")
            at += 2
        elif pattern[at] == "*":
            out.append("[^/]*")
            at += 1
        elif pattern[at] == "?":
            out.append("[^/]")
            at += 1
        else:
            out.append(re.escape(pattern[at]))
            at += 1
    return re.compile("".join(out) + r"\Z", re.DOTALL)


class DictFs:
    def __init__(self):
        self.files = {}

    def find(self, path):
        path = parse(path)
        if not path:
            raise ToolError("invalid_argument", "file_path must reference a file.")
        if path not in self.files:
            if self.is_directory(path):
                raise ToolError("is_directory", "Path is a directory; provide a file.")
            raise ToolError("not_found", "File does not exist in the workspace.")
        return path, self.files[path]

    def is_directory(self, path):
        prefix = path + "/" if path else ""
        return any(name.startswith(prefix) for name in self.files)

    def below(self, path):
        prefix = path + "/" if path else ""
        return [name for name in sorted(self.files) if name.startswith(prefix)]

    def change(self, path, old, text):
        """Files are replaced, not changed, so that a snapshot is a copy of the dict and not of every file."""
        self.files[path] = File(text, digest(text), old.version + 1, old.created_at, NOW_MILLIS)

    def snapshot(self):
        return dict(self.files)

    def restore(self, snapshot):
        self.files = dict(snapshot)

    def clone(self):
        other = DictFs()
        other.files = dict(self.files)
        return other

    def tree_hash(self):
        """Of all names and contents: what a journal records with every change. Contents keep their own hash, so this reads none."""
        directories = {"": {}}
        for path, file in self.files.items():
            parent, _, name = path.rpartition("/")
            directories.setdefault(parent, {})[name] = file
            while parent:
                above, _, own = parent.rpartition("/")
                if own in directories.setdefault(above, {}):
                    break
                directories[above][own] = None
                parent = above

        def of(directory):
            total = hashlib.sha256(b"stead tree 1\n")
            for name, file in sorted(directories[directory].items()):
                below = f"{directory}/{name}" if directory else name
                tag, inner = (b"d", of(below)) if file is None else (b"f", bytes.fromhex(file.hash[7:]))
                total.update(tag + len(name).to_bytes(4, "little") + name.encode() + inner)
            return total.digest()

        return "sha256:" + of("").hex()

    def read_text(self, path):
        return self.find(path)[1].text

    def write(self, path, content, mode="create"):
        path = parse(path)
        if len(content) > WRITE_CHARS:
            raise ToolError("too_large", f"Content exceeds maximum length of {WRITE_CHARS:,} characters.")
        if "\0" in content:
            raise ToolError("binary", "content must be text; it holds a NUL character.")
        old = self.files.get(path)
        if old is None:
            check_new(path)
            segments = path.split("/")
            for depth in range(1, len(segments)):
                if "/".join(segments[:depth]) in self.files:
                    raise ToolError("not_directory", "A file is in the way.")
            if self.is_directory(path):
                raise ToolError("is_directory", f"Path is a directory: {path}")
            self.files[path] = File(content, digest(content), 1, NOW_MILLIS, NOW_MILLIS)
        elif mode == "create":
            raise ToolError("exists", "File already exists; use edit_file to modify existing content.")
        else:
            self.change(path, old, old.text + content if mode == "append" else content)
        file = self.files[path]
        return {"path": path, "bytes": len(content.encode()), "hash": file.hash, "version": file.version}

    def read(self, path, offset=0, limit=READ_LINES):
        _, file = self.find(path)
        lines = file.text.splitlines(keepends=True)
        page = lines[offset : offset + min(limit, READ_LINES)]
        return {
            "content": "".join(page),
            "hash": file.hash,
            "offset": offset,
            "lines": len(page),
            "total_lines": len(lines),
            "truncated": offset + len(page) < len(lines),
            "binary": False,
        }

    def edit(self, path, old_string, new_string, replace_all=False):
        path, file = self.find(path)
        if not old_string:
            raise ToolError("invalid_argument", "old_string must not be empty.")
        if len(old_string) > WRITE_CHARS or len(new_string) > WRITE_CHARS:
            raise ToolError("too_large", f"Replacement strings must be {WRITE_CHARS:,} characters or fewer.")
        count = file.text.count(old_string)
        if count == 0:
            raise ToolError("not_found", "old_string not found in the target file.")
        if count > 1 and not replace_all:
            raise ToolError("ambiguous", "old_string must match exactly once unless replace_all is true.")
        text = file.text.replace(old_string, new_string)
        self.change(path, file, text)
        return {"path": path, "replacements": count, "hash": self.files[path].hash}

    def ls(self, path="/"):
        path = parse(path)
        prefix = path + "/" if path else ""
        entries = {}
        for name in self.below(path):
            child, slash, _ = name[len(prefix) :].partition("/")
            if slash:
                entries[child] = {"path": prefix + child, "kind": "directory", "size": 0, "mtime": rfc3339(NOW_MILLIS)}
            else:
                file = self.files[name]
                entries[child] = {
                    "path": name,
                    "kind": "file",
                    "size": len(file.text.encode()),
                    "version": file.version,
                    "mtime": rfc3339(file.updated_at),
                }
        if path and not entries:
            raise ToolError("not_found", f"Directory does not exist: {path}")
        return {"entries": [entries[name] for name in sorted(entries)][:LIST_ENTRIES]}

    def matching(self, path, pattern):
        prefix = path + "/" if path else ""
        regex = glob_regex(pattern)
        for name in self.below(path):
            relative = name[len(prefix) :]
            if not any(part.startswith(".") for part in relative.split("/")) and regex.match(relative):
                yield name

    def glob(self, pattern, path="/"):
        paths = list(self.matching(parse(path), pattern.lstrip("/")))
        return {"paths": paths[:GLOB_MATCHES], "truncated": len(paths) > GLOB_MATCHES}

    def grep(self, pattern, path="/", glob="*"):
        regex = re.compile(pattern)
        matches = []
        for name in self.matching(parse(path), glob if "/" in glob else "**/" + glob):
            for number, line in enumerate(self.files[name].text.splitlines(), 1):
                found = regex.search(line)
                if found:
                    if len(matches) == GREP_MATCHES:
                        return {"matches": matches, "truncated": True}
                    column = found.start() + 1
                    matches.append({"path": name, "line": number, "column": column, "text": line[:SHOWN_CHARS]})
        return {"matches": matches, "truncated": False}

    def rm(self, path):
        path = parse(path)
        gone = [path] if path in self.files else self.below(path)
        if not gone:
            raise ToolError("not_found", "No files matched the provided path.")
        directories = set()
        for name in gone:
            del self.files[name]
            parent = name
            while parent != path:
                parent = parent.rpartition("/")[0]
                directories.add(parent)
        return {"removed": len(gone) + len(directories)}


def repeat(count, call):
    """Seconds one call takes, and what the last one gave."""
    begun = time.perf_counter()
    for turn in range(count):
        result = call(turn)
    return (time.perf_counter() - begun) / count, result


def single_operations(work):
    """Each operation by itself: {"files": [[path, text]], "calls": {name: count}} gives {name: [seconds, check]}."""
    fs = DictFs()
    files = work["files"]
    for path, text in files:
        fs.write(path, text)
    paths = [path for path, _ in files]
    texts = [text for _, text in files]
    kept = fs.snapshot()

    def edit(turn):
        old, new = ("compute", "comxute") if turn // len(paths) % 2 == 0 else ("comxute", "compute")
        return fs.edit(paths[turn % len(paths)], old + work["marks"][turn % len(paths)], new + work["marks"][turn % len(paths)])

    operations = {
        "read": (lambda turn: fs.read_text(paths[turn % len(paths)]), len),
        "write": (lambda turn: fs.write(paths[turn % len(paths)], texts[turn % len(paths)], "overwrite"), lambda done: done["hash"]),
        "edit": (edit, lambda done: done["hash"]),
        "write and tree hash": (lambda turn: (fs.write(paths[turn % len(paths)], texts[turn % len(paths)], "overwrite"), fs.tree_hash()), lambda done: done[1]),
        "list": (lambda turn: fs.ls(work["directory"])["entries"], len),
        "glob": (lambda turn: fs.glob(work["glob"])["paths"], len),
        "grep": (lambda turn: fs.grep(work["grep"][turn % len(work["grep"])])["matches"], len),
        "snapshot": (lambda turn: fs.snapshot(), len),
        "restore": (lambda turn: fs.restore(kept), lambda _: 0),
        "clone": (lambda turn: fs.clone().files, len),
    }
    answer = {}
    for name, count in work["calls"].items():
        call, check = operations[name]
        seconds, result = repeat(count, call)
        answer[name] = [seconds, check(result)]
    print(json.dumps(answer))


def main():
    if len(sys.argv) == 2:
        with open(sys.argv[1], encoding="utf-8") as work:
            return single_operations(json.load(work))
    with open(sys.argv[1], encoding="utf-8") as lines:
        operations = [json.loads(line) for line in lines]
    fs = DictFs()
    tools = {name: getattr(fs, name) for name in ("ls", "read", "write", "edit", "glob", "grep", "rm")}
    seconds = dict.fromkeys(tools, 0.0)
    results = []
    for name, arguments in operations:
        begun = time.perf_counter()
        try:
            result = tools[name](**arguments)
        except ToolError as error:
            result = error.code
        seconds[name] += time.perf_counter() - begun
        results.append(result)
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        json.dump(results, out)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
