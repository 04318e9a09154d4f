"""The programs of `examples/python`, run as users run them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stead import Client, Sandbox

EXAMPLES = Path(__file__).resolve().parents[3] / "examples/python"

STATS = "def average(values):\n    return sum(values) / (len(values) - 1)\n"
STATS_TEST = """import unittest
from stats import average
class Test(unittest.TestCase):
    def test_average(self):
        self.assertEqual(average([1, 2, 3]), 2)
"""
ORDER = "def order(words):\n    raise NotImplementedError\n"
ORDER_TEST = """import unittest
from order import order
class Test(unittest.TestCase):
    def test_empty(self): self.assertEqual(order([]), [])
    def test_unique(self): self.assertEqual(order(["b", "b"]), ["b"])
    def test_length_first(self): self.assertEqual(order(["bb", "a"]), ["a", "bb"])
    def test_then_alphabet(self): self.assertEqual(order(["c", "aa", "b"]), ["b", "c", "aa"])
"""


def run(example: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / example), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def git(directory: Path, *arguments: str) -> None:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com"}
    identity.update(GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@example.com")
    subprocess.run(["git", "-C", str(directory), *arguments], check=True, env={**os.environ, **identity})


@pytest.fixture
def repository(tmp: Path, client: Client) -> Path:
    """A repository that the server may read."""
    folder = tmp / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    platform = client.request("GET", "/platform")
    client.request("PUT", "/platform", {**platform, "allowed_host_roots": [str(tmp)]})
    return folder


def commit(repository: Path, **files: str) -> None:
    for name, text in files.items():
        (repository / f"{name}.py").write_text(text)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "change")


def test_a_failing_test_is_fixed(client: Client, tmp: Path) -> None:
    (tmp / "stats.py").write_text(STATS)
    (tmp / "test_stats.py").write_text(STATS_TEST)
    output = run("fix_failing_test.py", tmp)
    assert output.splitlines()[0] == "before: fails"
    assert output.splitlines()[-2:] == ["after: passes", "changed: stats.py"]
    assert "/ len(values)\n" in (tmp / "stats.py").read_text()


def test_the_best_of_eight_is_applied(client: Client, tmp: Path) -> None:
    (tmp / "order.py").write_text(ORDER)
    (tmp / "test_order.py").write_text(ORDER_TEST)
    output = run("best_of_n.py", tmp)
    assert "4 passed  return sorted(set(words), key=" in output
    assert "changed: order.py" in output
    assert "set(words), key=" in (tmp / "order.py").read_text()


def test_an_evaluation_counts_its_tasks(repository: Path) -> None:
    grade = "import sys\nsys.exit(open('answer.txt').read().strip() != sys.argv[1])\n"
    commit(repository, grade=grade)
    output = run("evaluate.py", repository, 20, 5)
    assert output.endswith(": 17 passed, 3 failed\n") and output.startswith("20 tasks at ")


def test_a_pull_request_is_reviewed(repository: Path) -> None:
    commit(repository, stats=STATS.replace(" - 1", ""), test_stats=STATS_TEST)
    git(repository, "checkout", "-q", "-b", "worse")
    commit(repository, stats=STATS + "print('debug')\n")
    git(repository, "checkout", "-q", "-b", "better", "main")
    commit(repository, other="x = 1\n")
    output = run("review_bot.py", repository, "worse", "main").splitlines()
    assert output[0] == "stats.py:3: remove the print"
    assert output[1].startswith("the tests fail: FAILED")
    assert output[-1] == "verdict: changes requested"
    assert run("review_bot.py", repository, "better", "main") == "verdict: approved\n"


def test_data_is_analysed(client: Client, tmp: Path) -> None:
    (tmp / "table.csv").write_text("city,degrees\nBern,10\nBern,20\nRome,30\n")
    assert run("analyse_data.py", tmp / "table.csv", tmp / "results") == "Bern: mean 15.0 of 2\nRome: mean 30.0 of 1\n"
    assert json.loads((tmp / "results/summary.json").read_text())["Bern"] == {"mean": 15.0, "count": 2}
    assert "<svg" in (tmp / "results/plot.svg").read_text()


@pytest.fixture(autouse=True)
def nothing_is_left(client: Client) -> "object":
    yield
    assert not Sandbox.list(status="active", client=client)


def test_preview_app(tmp: Path, client: Client) -> None:
    (tmp / "site").mkdir()
    (tmp / "site/index.html").write_text("<h1>Hello</h1>")
    printed = run("preview_app.py", tmp / "site", "python3 -m http.server 8000 --bind 127.0.0.1", 8000, "/", "/index.html")
    first, second, link = printed.splitlines()
    assert (first, second) == ("200 / 14 bytes", "200 /index.html 14 bytes")
    assert link.startswith("open http://8000-ses-")
    with pytest.raises(AssertionError, match="404 /none"):
        run("preview_app.py", tmp / "site", "python3 -m http.server 8000 --bind 127.0.0.1", 8000, "/none")
