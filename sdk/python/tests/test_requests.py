"""Errors, retries and streams, with a proxy in front of the real server that loses answers."""

import socket
import uuid
from typing import Iterator

import pytest
from faulty_proxy import FaultyProxy
from stead import BadRequest, Client, Conflict, ConnectionFailed, NotFound, Sandbox, SteadError, TooManyRequests

REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
NOT_READY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.fixture
def proxy(client: Client) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(client.url())
    yield proxy
    proxy.close()


@pytest.fixture
def through(client: Client, proxy: FaultyProxy) -> Iterator[Client]:
    with Client(proxy.url, client.http.endpoint().token) as through:
        yield through


def test_an_error_has_code_status_fields_hint_and_request_id(client: Client) -> None:
    with pytest.raises(BadRequest) as raised:
        client.request("POST", "/agent-types", {"id": "x", "workspace": {"provder": "native"}})
    error = raised.value
    assert (error.code, error.status) == ("invalid_request", 400)
    assert error.errors[0]["field"] == "workspace.provder"
    assert error.request_id
    assert error.request_id in str(error) and "provder" in str(error)


def test_an_error_names_the_missing_resource(client: Client) -> None:
    with pytest.raises(NotFound) as raised:
        Sandbox.create("no-such-type", client=client)
    assert raised.value.parameters["resource"] == "agent_type"
    assert raised.value.parameters["id"] == "no-such-type"


def test_a_closed_sandbox_refuses_calls(client: Client) -> None:
    box = Sandbox.create(client=client)
    box.close()
    box.close()
    with pytest.raises(Conflict) as raised:
        box.commands.run("true")
    assert raised.value.code == "session_not_active"


def test_a_write_with_an_old_hash_is_refused(box: Sandbox) -> None:
    old = box.files.write("a.txt", "one")["hash"]
    box.files.write("a.txt", "two", if_match=old)
    with pytest.raises(Conflict):
        box.files.write("a.txt", "three", if_match=old)
    assert box.files.read("a.txt") == "two"


def test_a_create_whose_answer_is_lost_makes_one_sandbox(through: Client, proxy: FaultyProxy) -> None:
    job = uuid.uuid4().hex
    through.agent_types._ensure("base", None)
    proxy.cut_after = [10, 0]
    box = Sandbox.create(metadata={"job": job}, client=through)
    creates = [line for line in proxy.requests if line.startswith("POST /api/v1/sessions?")]
    assert len(creates) == 3
    assert [found.id for found in Sandbox.list(metadata={"job": job}, client=through)] == [box.id]
    box.close()


def test_a_command_whose_answer_is_lost_runs_once(box: Sandbox, through: Client, proxy: FaultyProxy) -> None:
    proxied = Sandbox.connect(box.id, client=through)
    proxy.cut_after = [10]
    assert proxied.commands.run("echo x >> ran.txt; echo done").stdout == "done\n"
    assert box.files.read("ran.txt") == "x\n"


def test_a_tool_call_whose_answer_is_lost_is_not_repeated(box: Sandbox, through: Client, proxy: FaultyProxy) -> None:
    proxied = Sandbox.connect(box.id, client=through)
    proxy.cut_after = [10]
    with pytest.raises(ConnectionFailed) as raised:
        proxied.tool("bash", command="echo x >> ran.txt")
    assert raised.value.code == "connection_lost"
    assert box.files.read("ran.txt") == "x\n"


def test_refused_requests_are_sent_again(box: Sandbox, through: Client, proxy: FaultyProxy) -> None:
    proxied = Sandbox.connect(box.id, client=through)
    proxy.refusals = [REFUSED, REFUSED]
    assert proxied.tool("write", path="a.txt", content="x")["ok"]
    proxy.refusals = [NOT_READY]
    assert proxied.files.read("a.txt") == "x"


def test_a_tool_call_is_not_repeated_after_503(box: Sandbox, through: Client, proxy: FaultyProxy) -> None:
    proxied = Sandbox.connect(box.id, client=through)
    proxy.refusals = [NOT_READY]
    with pytest.raises(SteadError) as raised:
        proxied.tool("write", path="a.txt", content="x")
    assert raised.value.status == 503


def test_retries_end(proxy: FaultyProxy, client: Client) -> None:
    proxy.refusals = [REFUSED] * 10
    with Client(proxy.url, client.http.endpoint().token, retries=2) as impatient, pytest.raises(TooManyRequests):
        impatient.whoami()
    assert len(proxy.requests) == 3


def test_no_server_is_an_error_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", "t", retries=1) as nobody, pytest.raises(ConnectionFailed) as raised:
        nobody.whoami()
    assert raised.value.code == "unreachable" and str(port) in str(raised.value)


def test_output_continues_after_lost_connections(box: Sandbox, through: Client, proxy: FaultyProxy) -> None:
    proxied = Sandbox.connect(box.id, client=through)
    # The first answer is that of the start; the next two are parts of the stream.
    proxy.cut_after = [1 << 20, 5_000, 40_000]
    lines = []
    result = proxied.commands.run("seq 1 20000", on_stdout=lines.append)
    expected = [str(number) for number in range(1, 20001)]
    assert lines == expected
    assert result.stdout == "\n".join(expected) + "\n" and not result.truncated


def test_events_continue_after_lost_connections(box: Sandbox, through: Client, proxy: FaultyProxy) -> None:
    for number in range(20):
        box.files.write(f"{number}.txt", "x")
    known = [event["seq"] for event in box.events(follow=False)]
    proxied = Sandbox.connect(box.id, client=through)
    proxy.cut_after = [3_000, 3_000, 3_000]
    seen = []
    for event in proxied.events():
        seen.append(event["seq"])
        if len(seen) == len(known):
            break
    assert seen == known


def test_events_end_with_the_session(client: Client) -> None:
    box = Sandbox.create(client=client)
    box.close()
    kinds = [event["type"] for event in box.events()]
    assert kinds[0] == "SessionCreated" and kinds[-1] == "SessionClosed"
