"""A coding agent without a model: it fixes a failing test in a fork and applies the fix.

    python fix_failing_test.py DIRECTORY

The agent is a script of tool calls in the form in which a model sends them. With a model, `calls`
comes from its answers, and everything else stays.
"""

import sys
from typing import Any, Dict, Iterator

from stead import Sandbox

ENV = {"PYTHONDONTWRITEBYTECODE": "1"}  # no caches among the changes
TEST = "python3 -m unittest -q"


def calls() -> Iterator[Dict[str, Any]]:
    """What a model would answer, one tool call after the other."""
    steps = [
        ("grep", {"pattern": "def average", "output_mode": "content"}),
        ("read", {"path": "stats.py"}),
        ("edit", {"path": "stats.py", "old_string": "/ (len(values) - 1)", "new_string": "/ len(values)"}),
        ("bash", {"command": TEST}),
    ]
    for number, (name, arguments) in enumerate(steps):
        yield {"type": "tool_use", "id": f"call_{number}", "name": name, "input": arguments}


def main(directory: str) -> None:
    with Sandbox.create(dir=directory, env=ENV) as box:
        print("before:", "passes" if box.commands.run(TEST).ok else "fails")
        with box.fork() as forks:
            attempt = forks[0]
            for call in calls():
                answer = attempt.call(call)
                print(f"  {call['name']}:", "failed" if answer["is_error"] else "ok")
            if not attempt.commands.run(TEST).ok:
                sys.exit("the attempt failed; the directory is unchanged")
            print("after: passes")
            print("changed:", ", ".join(attempt.apply(directory)))
        # The workspace that was forked never saw the attempt.
        assert box.diff() == ""


if __name__ == "__main__":
    main(sys.argv[1])
