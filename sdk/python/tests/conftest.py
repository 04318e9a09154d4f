"""A real server for the tests: the one of `STEAD_URL`, or one that the package starts on a new home."""

import os
from pathlib import Path
from typing import AsyncIterator, Iterator

import pytest
from stead import AsyncSandbox, Client, Sandbox, _embedded


@pytest.fixture(scope="session", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if os.environ.get("STEAD_URL"):
        yield
        return
    os.environ["STEAD_HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    _embedded.stop()


@pytest.fixture(scope="session")
def client(server: None) -> Iterator[Client]:
    with Client() as client:
        allow_network(client)
        yield client


def allow_network(client: Client) -> None:
    """Declares the agent type `fetcher`, which may reach `api.example.com`. The platform allows it every
    name below `example.com`. The tests connect to none of them."""
    platform = {name: value for name, value in client.request("GET", "/platform").items() if value is not None}
    client.request("PUT", "/platform", {**platform, "network": {"agent": {"allow": ["*.example.com"]}}})
    network = {"agent": {"allow": ["api.example.com"]}}
    workspace = {"enabled": True, "workspace_policy": "empty", "require_workspace": True, "network": network}
    client.agent_types.put("fetcher", workspace=workspace)


@pytest.fixture
def box(client: Client) -> Iterator[Sandbox]:
    with Sandbox.create(client=client) as box:
        yield box


@pytest.fixture
async def async_box(client: Client) -> AsyncIterator[AsyncSandbox]:
    async with await AsyncSandbox.create() as box:
        yield box


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    return tmp_path
