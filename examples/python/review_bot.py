"""A review bot: checks the branch of a pull request and prints its comments.

    python review_bot.py REPOSITORY BRANCH BASE

The rules are simple here: tests must pass, and new lines must not print. With a model, the diff
goes into its prompt.
"""

import re
import sys
from typing import List

from stead import Sandbox


def comments(box: Sandbox, base: str) -> List[str]:
    found = []
    diff = box.commands.run(["git", "diff", "--unified=0", f"{base}...HEAD"], check=True).stdout
    path, line = "", 0
    for text in diff.splitlines():
        if text.startswith("+++ b/"):
            path = text[6:]
        elif text.startswith("@@"):
            line = int(re.findall(r"\+(\d+)", text)[0])
        elif text.startswith("+") and not text.startswith("+++"):
            if re.search(r"\bprint\(", text):
                found.append(f"{path}:{line}: remove the print")
            line += 1
    tests = box.commands.run("python3 -m unittest -q")
    if not tests.ok:
        found.append(f"the tests fail: {tests.stderr.strip().splitlines()[-1]}")
    return found


def main(repository: str, branch: str, base: str) -> None:
    with Sandbox.create(repo=repository, branch=branch, base_branch=base) as box:
        found = comments(box, base)
        for comment in found:
            print(comment)
        print("verdict:", "changes requested" if found else "approved")


if __name__ == "__main__":
    main(*sys.argv[1:])
