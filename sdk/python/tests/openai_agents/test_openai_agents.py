"""The OpenAI Agents SDK with its own scripted model, in a sandbox."""

import io
from pathlib import Path
from typing import Any

import pytest
from agents import Runner
from agents.run import RunConfig
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecTimeoutError, WorkspaceReadNotFoundError
from agents.testing import ScriptedModel, assistant_message, function_call
from stead import Sandbox
from stead.integrations.openai_agents import SteadSandboxClient, SteadSandboxClientOptions

MANIFEST = Manifest(root="/workspace", entries={"app.py": File(content=b"print(6 * 7)\n")})


@pytest.fixture(autouse=True)
def running(server: None) -> None:
    """Every test here needs the server."""


def sandboxes() -> Any:
    return [box for box in Sandbox.list(status="active") if "openai_agents" in box.session["metadata"]]


async def test_an_agent_runs_in_a_sandbox_that_is_closed_afterwards() -> None:
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "python3 app.py > answer.txt; cat answer.txt"}, call_id="c1")],
            [assistant_message("It is 42.")],
        ]
    )
    agent = SandboxAgent(name="coder", model=model, default_manifest=MANIFEST, capabilities=[Shell(), Filesystem()])
    config = RunConfig(sandbox=SandboxRunConfig(client=SteadSandboxClient()), tracing_disabled=True)
    result = await Runner.run(agent, "Run app.py", run_config=config)
    model.assert_complete()
    assert result.final_output == "It is 42."
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert "42" in str(outputs[0]) and not sandboxes()


async def test_files_and_commands() -> None:
    client = SteadSandboxClient()
    session = await client.create(manifest=MANIFEST, options=SteadSandboxClientOptions(env={"MODE": "test"}))
    async with session:
        assert await session.running()
        done = await session.exec("cat app.py; echo $MODE; echo bad >&2; exit 3", shell=True)
        assert (done.exit_code, done.stdout, done.stderr) == (3, b"print(6 * 7)\ntest\n", b"bad\n")
        await session.write(Path("deep/data.bin"), io.BytesIO(b"\x00\xff"))
        assert (await session.read(Path("deep/data.bin"))).read() == b"\x00\xff"
        assert "deep" in [Path(entry.path).name for entry in await session.ls(".")]
        with pytest.raises(WorkspaceReadNotFoundError):
            await session.read(Path("none.txt"))
        with pytest.raises(Exception):
            await session.read(Path("/etc/passwd"))
        with pytest.raises(ExecTimeoutError):
            await session.exec("sleep 60", timeout=1, shell=True)
    await client.delete(session)
    assert not sandboxes()


async def test_a_session_is_resumed_from_its_state() -> None:
    client = SteadSandboxClient()
    session = await client.create(manifest=MANIFEST)
    await session.start()
    await session.write(Path("kept.txt"), io.BytesIO(b"kept"))
    payload = client.serialize_session_state(session.state)
    again = await SteadSandboxClient().resume(client.deserialize_session_state(payload))
    await again.start()
    assert again.state.sandbox_id == session.state.sandbox_id
    assert (await again.read(Path("kept.txt"))).read() == b"kept"
    archive = await again.persist_workspace()
    other = await client.create(manifest=Manifest(root="/workspace"))
    await other.start()
    await other.hydrate_workspace(archive)
    assert (await other.read(Path("kept.txt"))).read() == b"kept"
    await client.delete(other)
    await client.delete(again)
    # The sandbox is gone, so that resuming makes another one.
    third = await SteadSandboxClient().resume(client.deserialize_session_state(payload))
    assert third.state.sandbox_id != session.state.sandbox_id
    await client.delete(third)
    assert not sandboxes()
