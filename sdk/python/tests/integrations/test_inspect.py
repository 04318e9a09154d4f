"""Inspect AI's own checks of a sandbox environment, and a task that uses it by its name."""

from typing import Any, Iterator

import pytest
from inspect_ai.util import SandboxUserUnsupportedError
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from stead import AsyncSandbox, BadRequest, Sandbox
from stead.integrations.inspect import SteadSandboxEnvironment

KNOWN = {
    # A box has one user, and no command can become another.
    "test_exec_as_user": SandboxUserUnsupportedError,
    # The journal records command lines, so that they have at most 32 KiB. More goes in as a file or
    # on standard input.
    "test_exec_large_command": BadRequest,
}


@pytest.fixture(scope="module")
def checked(server: None) -> Iterator[Sandbox]:
    with Sandbox.create() as box:
        yield box


@pytest.fixture
async def sandbox_env(checked: Sandbox, request: pytest.FixtureRequest) -> Any:
    known = KNOWN.get(request.node.originalname)
    if known is not None:
        request.node.add_marker(pytest.mark.xfail(raises=known, strict=True))
    return SteadSandboxEnvironment(await AsyncSandbox.connect(checked.id))


def test_inspect_finds_the_provider_by_its_entry_point() -> None:
    assert registry_find_sandboxenv("stead").__name__ == "SteadSandboxEnvironment"


def test_a_task_runs_in_a_sandbox(server: None, tmp: Any) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import Score, Target, accuracy, scorer
    from inspect_ai.solver import Generate, TaskState, solver
    from inspect_ai.util import sandbox

    @solver
    def compute() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            await sandbox().write_file("sum.py", "print(2 + 3)")
            state.output.completion = (await sandbox().exec(["python3", "sum.py"])).stdout.strip()
            return state

        return solve

    @scorer(metrics=[accuracy()])
    def exact() -> Any:
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value=1 if state.output.completion == target.text else 0)

        return score

    task = Task(dataset=[Sample(input="2+3", target="5")], solver=compute(), scorer=exact(), sandbox="stead")
    log = eval(task, model="mockllm/model", log_dir=str(tmp), display="none")[0]
    assert log.status == "success", log.error
    assert log.results is not None and log.results.scores[0].metrics["accuracy"].value == 1
    assert not [box for box in Sandbox.list(status="active") if box.session["metadata"].get("inspect_task") == "task"]
