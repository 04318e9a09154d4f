"""The Python blocks of the README and of the guide run as they are printed."""

import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

import pytest
from stead import Client, Sandbox

ROOT = Path(__file__).resolve().parents[3]
PAGES = ["README.md", "sdk/python/README.md", "docs/how-to/python.md"]


def blocks() -> List[Tuple[str, str]]:
    found = []
    for page in PAGES:
        parts = (ROOT / page).read_text().split("\n```python\n")[1:]
        found += [(f"{page} {number}", part.split("\n```")[0]) for number, part in enumerate(parts, 1)]
    return found


BLOCKS = blocks()


@pytest.mark.parametrize("code", [code for _, code in BLOCKS], ids=[name for name, _ in BLOCKS])
def test_a_block_runs(code: str, client: Client, tmp: Path) -> None:
    (tmp / "test_it.py").write_text("import unittest\nclass Test(unittest.TestCase):\n    def test(self): pass\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp, capture_output=True, text=True, timeout=300)
    for left in Sandbox.list(status="active", client=client):
        left.close()  # the short examples do not close their forks
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_every_page_has_blocks() -> None:
    assert {name.rsplit(" ", 1)[0] for name, _ in BLOCKS} == set(PAGES)
