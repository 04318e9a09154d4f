"""A server that the package starts by itself, and that ends with the process."""

import os
import subprocess
import sys
import time
from pathlib import Path

from stead import _endpoint

PROGRAM = """
import sys
from stead import Sandbox
with Sandbox.create() as box:
    print(box.commands.run("echo from the box").stdout, end="", flush=True)
    if sys.argv[1:] == ["wait"]:
        sys.stdin.read()
    if sys.argv[1:] == ["close"]:
        others = [other for other in Sandbox.list(status="active") if other.id != box.id]
        for other in others:
            other.close()
        print("closed", len(others))
"""


def start(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name not in ("STEAD_URL", "STEAD_TOKEN")}
    environment.update(STEAD_HOME=str(home), PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def is_running(home: Path) -> bool:
    return _endpoint.running_url(home) is not None


def wait_for_end(home: Path) -> None:
    deadline = time.monotonic() + 60
    while is_running(home):
        assert time.monotonic() < deadline, f"a server still runs on {home}"
        time.sleep(0.05)


def test_a_script_needs_no_server(tmp: Path) -> None:
    process = start(tmp / "home")
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (0, "from the box\n")
    assert not is_running(tmp / "home")


def test_a_killed_script_leaves_no_server(tmp: Path) -> None:
    process = start(tmp / "home", "wait")
    assert process.stdout is not None and process.stdout.readline() == "from the box\n"
    assert is_running(tmp / "home")
    process.kill()
    process.wait(30)
    wait_for_end(tmp / "home")
    # The sandbox belongs to the home: the next server has it.
    process = start(tmp / "home", "close")
    assert process.communicate(timeout=120)[0] == "from the box\nclosed 1\n"


def test_scripts_at_the_same_time_share_a_server(tmp: Path) -> None:
    processes = [start(tmp / "home") for _ in range(3)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [(process.returncode, output) for process, output in zip(processes, outputs)] == [(0, "from the box\n")] * 3
    wait_for_end(tmp / "home")
