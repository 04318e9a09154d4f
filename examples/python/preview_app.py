"""Runs a web application in a box, checks it, and prints a link for a browser.

    python preview_app.py DIRECTORY COMMAND PORT [PATH...]

The command starts the application, such as `python3 app.py`. Each path must answer with a status below 400.
"""

import sys

from stead import Sandbox


def main() -> None:
    directory, command, port, *paths = sys.argv[1:]
    with Sandbox.create(dir=directory) as box:
        box.commands.start(command)
        box.ports.wait(int(port))
        failed = 0
        for path in paths or ["/"]:
            answer = box.ports.request("GET", int(port), path)
            failed += answer.status_code >= 400
            print(answer.status_code, path, f"{len(answer.content)} bytes")
        print("open", box.host(int(port)))
        if sys.stdin.isatty():
            input("Press Enter to close the box. ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
