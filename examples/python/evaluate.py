"""An evaluation: many tasks, each in its own copy of one commit.

    python evaluate.py REPOSITORY [TASKS] [AT_ONCE]

The repository is checked out once. Each task gets a fork of that workspace, so that no task sees
another, and the files of all start with the same hash.
"""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from stead import Sandbox


def evaluate(fork: Sandbox, number: int) -> str:
    """One task: the agent writes a number, the grader checks it. Every seventh agent is wrong."""
    with fork:
        wrong = number % 7 == 0
        fork.commands.run(f"echo {number + wrong} > answer.txt", check=True)
        graded = fork.commands.run(["python3", "grade.py", str(number)])
        fork.verify()
        return "passed" if graded.ok else "failed"


def main(repository: str, tasks: int = 200, at_once: int = 8) -> None:
    results: "Counter[str]" = Counter()
    with Sandbox.create(repo=repository) as base, ThreadPoolExecutor(at_once) as pool:
        commit = base.commands.run("git rev-parse HEAD", check=True).stdout.strip()
        for start in range(0, tasks, at_once):
            numbers = range(start, min(start + at_once, tasks))
            results.update(pool.map(evaluate, base.fork(len(numbers)), numbers))
    print(f"{tasks} tasks at {commit[:12]}: {results['passed']} passed, {results['failed']} failed")


if __name__ == "__main__":
    main(sys.argv[1], *(int(argument) for argument in sys.argv[2:]))
