"""Every public method has an example in its docstring, and the example runs on a real server."""

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import traceback
from pathlib import Path
from types import CodeType
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import stead
from stead import AsyncClient, AsyncSandbox, Client, Sandbox

PUBLIC = [
    "AsyncClient",
    "AsyncCommand",
    "AsyncCommands",
    "AsyncConnection",
    "AsyncFiles",
    "AsyncNetwork",
    "AsyncPorts",
    "AsyncRun",
    "AsyncRuns",
    "AsyncSandbox",
    "AsyncSecrets",
    "AsyncSetupResults",
    "Client",
    "Command",
    "CommandResult",
    "Commands",
    "Connection",
    "Files",
    "Forward",
    "Network",
    "Ports",
    "Run",
    "Runs",
    "Sandbox",
    "Secrets",
    "SetupResults",
    "SteadError",
]
CLASSES = [getattr(stead, name) for name in PUBLIC]
CLASSES += [type(AsyncClient().content), type(Client().content)]
CLASSES += [type(AsyncClient().agent_types), type(Client().agent_types)]
FLAGS = doctest.ELLIPSIS


def documented() -> Iterator[Tuple[str, Any]]:
    for kind in CLASSES:
        if ">>>" in (kind.__doc__ or ""):
            yield kind.__name__, kind
        for name, member in vars(kind).items():
            function = member.__func__ if isinstance(member, classmethod) else member
            if isinstance(function, property):
                function = function.fget
            if not name.startswith("_") and inspect.isfunction(function):
                yield f"{kind.__name__}.{name}", function


EXAMPLES = list(documented())


def examples(item: Any) -> List[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(item) or "")


@pytest.mark.parametrize("item", [item for _, item in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_has_an_example(item: Any) -> None:
    assert examples(item), "the docstring has no example"


ASYNC = [(name, item) for name, item in EXAMPLES if name.startswith("Async")]
SYNC = [(name, item) for name, item in EXAMPLES if not name.startswith("Async")]


@pytest.mark.parametrize("item", [item for _, item in SYNC], ids=[name for name, _ in SYNC])
def test_example(item: Any, client: Client, box: Sandbox, tmp: Path) -> None:
    names = {**vars(stead), "client": client, "box": box, "tmp": tmp}

    def run(code: CodeType) -> None:
        exec(code, names)

    for example in examples(item):
        with output_of(example):
            run(compile(example.source, "<example>", "single"))


@pytest.mark.parametrize("item", [item for _, item in ASYNC], ids=[name for name, _ in ASYNC])
async def test_async_example(item: Any, async_box: AsyncSandbox, tmp: Path) -> None:
    names: Dict[str, Any] = {**vars(stead), "client": async_box.client, "box": async_box, "tmp": tmp}
    for example in examples(item):
        with output_of(example):
            code = compile(example.source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = eval(code, names)
            if asyncio.iscoroutine(waiting):
                await waiting


@contextlib.contextmanager
def output_of(example: doctest.Example) -> Iterator[None]:
    """Compares what the block prints with what the example expects."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except Exception as error:
        pytest.fail(f"{example.source}\n{''.join(traceback.format_exception(type(error), error, error.__traceback__))}")
    checker = doctest.OutputChecker()
    if not checker.check_output(example.want, printed.getvalue(), FLAGS):
        pytest.fail(example.source + checker.output_difference(example, printed.getvalue(), FLAGS))
