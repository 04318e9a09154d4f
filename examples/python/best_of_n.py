"""Best of N: forks a workspace, tries a candidate in each fork, and applies the best one.

    python best_of_n.py DIRECTORY

The candidates are fixed here. With a model, each fork asks it once.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import List, Tuple

from stead import Sandbox

ENV = {"PYTHONDONTWRITEBYTECODE": "1"}  # no caches among the changes

CANDIDATES = [
    "return sorted(words)",
    "return sorted(set(words))",
    "return list(set(words))",
    "return sorted(words, key=len)",
    "return list(words)",
    "return sorted(words, key=lambda word: (len(word), word))",
    "return sorted(set(words), key=lambda word: (len(word), word))",
    "return words[::-1]",
]


def attempt(work: Tuple[Sandbox, str]) -> int:
    """Writes a candidate and returns the number of tests that pass."""
    fork, body = work
    fork.tool("edit", path="order.py", old_string="raise NotImplementedError", new_string=body)
    run = fork.commands.run("python3 -m unittest -v 2>&1")
    return sum(line.endswith("... ok") for line in run.stdout.splitlines())


def main(directory: str) -> None:
    with Sandbox.create(dir=directory, env=ENV) as box, box.fork(len(CANDIDATES)) as forks:
        with ThreadPoolExecutor(len(forks)) as pool:
            passed: List[int] = list(pool.map(attempt, zip(forks, CANDIDATES)))
        for body, count in zip(CANDIDATES, passed):
            print(f"{count} passed  {body}")
        best = max(range(len(forks)), key=lambda index: passed[index])
        print("winner:", CANDIDATES[best])
        print("changed:", ", ".join(forks[best].apply(directory)))


if __name__ == "__main__":
    main(sys.argv[1])
