"""Uses the generated Python client: makes a session, calls a tool, runs a command, reads a file and closes."""

import os
from typing import Any, TypeVar

from stead_client import AuthenticatedClient
from stead_client.api.agent_types import create_agent_type
from stead_client.api.execs import create_exec
from stead_client.api.files import read_file
from stead_client.api.sessions import close_session, create_session
from stead_client.api.tools import call_tool
from stead_client.models import (
    AgentType,
    AgentTypeDeclaration,
    Exec,
    ExecRequest,
    ExecStatus,
    PolicyKind,
    ProviderName,
    Session,
    SessionRequest,
    SessionStatus,
    Task,
    ToolAnswer,
    ToolArguments,
    ToolName,
    WorkspaceConfig,
)
from stead_client.types import File, Response

T = TypeVar("T")


def expect(kind: type[T], response: Response[Any]) -> T:
    """Returns the parsed body, or fails with the server's problem."""
    assert isinstance(response.parsed, kind), f"{response.status_code}: {response.content!r}"
    return response.parsed


client = AuthenticatedClient(base_url=os.environ["STEAD_URL"], token=os.environ["STEAD_TOKEN"])

workspace = WorkspaceConfig(
    enabled=True,
    provider=ProviderName.NATIVE,
    workspace_policy=PolicyKind.EMPTY,
    tools=[ToolName.BASH, ToolName.READ, ToolName.WRITE],
)
declaration = AgentTypeDeclaration(id="python-client", workspace=workspace)
agent_type = expect(AgentType, create_agent_type.sync_detailed(client=client, body=declaration))

request = SessionRequest(agent_type=agent_type.id, task=Task(prompt="Say hello."))
session = expect(Session, create_session.sync_detailed(client=client, body=request, wait=60))
assert session.status == SessionStatus.ACTIVE and not session.degraded, session

arguments = ToolArguments.from_dict({"path": "hello.txt", "content": "hello\n"})
written = expect(ToolAnswer, call_tool.sync_detailed(session.id, ToolName.WRITE, client=client, body=arguments))
assert written.ok, written

command = ExecRequest(command="tr a-z A-Z < hello.txt > loud.txt; cat loud.txt")
ran = expect(Exec, create_exec.sync_detailed(session.id, client=client, body=command))
assert (ran.status, ran.exit_code, ran.stdout) == (ExecStatus.FINISHED, 0, "HELLO\n"), ran

loud = expect(File, read_file.sync_detailed(session.id, "loud.txt", client=client))
assert loud.payload.read() == b"HELLO\n"

closed = close_session.sync_detailed(session.id, client=client)
assert closed.status_code == 204, closed
print(f"the Python client used {session.id}")
