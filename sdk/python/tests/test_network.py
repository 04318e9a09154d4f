"""What a sandbox reaches, and secrets that it uses without seeing them."""

import http.server
import threading
from typing import Any, Dict, Iterator, List

import pytest
from stead import BadRequest, Client, NotFound, Sandbox, SteadError

SECRET = "sk-only-the-server-knows"


class Target(http.server.BaseHTTPRequestHandler):
    received: List[str] = []

    def do_GET(self) -> None:
        self.received.append(self.headers.get("Authorization", ""))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def target() -> Iterator[int]:
    Target.received = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def changed_platform(client: Client, network: Dict[str, Any]) -> Dict[str, Any]:
    """Sets the platform's network and returns the settings that were there."""
    before = {name: value for name, value in client.request("GET", "/platform").items() if value is not None}
    client.request("PUT", "/platform", {**before, "network": network})
    return before


def test_a_refused_host_has_the_rule_that_would_allow_it(client: Client) -> None:
    with Sandbox.create("fetcher", client=client) as box:
        box.commands.run("curl -sS --max-time 20 https://other.example.com/ || true")
        report = box.network.report()
        assert report["used"] == []
        (refused,) = report["refused"]
        assert (refused["host"], refused["port"], refused["why"]) == ("other.example.com", 443, "not_allowed")
        assert refused["layer"] == "agent_type"
        granted = box.network.grant([refused["draft"]], 600)
        assert granted["workspace"] is not None
        hosts = {host["host"] for host in box.network.report()["reachable"]}
        assert hosts == {"api.example.com", "other.example.com"}
        assert all(phase["allowed"] for phase in box.network.explain("other.example.com") if phase["phase"] == "agent")
        box.network.narrow(["other.example.com"])
        assert {host["host"] for host in box.network.report()["reachable"]} == {"api.example.com"}


def test_grants_stay_below_the_ceiling(client: Client) -> None:
    with Sandbox.create("fetcher", client=client) as box:
        with pytest.raises(SteadError) as raised:
            box.network.grant(["elsewhere.example.org"], 600)
        assert raised.value.status in (403, 422)
        with pytest.raises(BadRequest):
            box.network.grant([], 600)
        with pytest.raises(SteadError) as wrong:
            box.network.explain("not a host")
        assert wrong.value.code == "not_explained"
        assert "not HOST[:PORT]" in wrong.value.message


def test_a_sandbox_without_a_network(box: Sandbox) -> None:
    assert box.network.explain("api.example.com") == []
    assert box.network.report()["reachable"] == []


def test_a_secret_is_used_and_not_seen(client: Client, target: int) -> None:
    service = {"to": f"http://127.0.0.1:{target}", "secret": "target-key"}
    before = changed_platform(client, {"services": {"target": service}, "agent": {"allow": ["service:target"]}})
    try:
        stored = client.secrets.set("target-key", SECRET, ["127.0.0.1"], agent_types=["caller"], over_http=True)
        assert (stored["name"], stored["header"], stored["as"]) == ("target-key", "authorization", "Bearer {}")
        network = {"agent": {"allow": ["service:target"]}}
        workspace = {"enabled": True, "workspace_policy": "empty", "require_workspace": True, "network": network}
        client.agent_types.put("caller", workspace=workspace)
        with Sandbox.create("caller", env={"KEY": {"secret": "target-key"}}, client=client) as box:
            run = box.commands.run("curl -sS http://target.svc.stead/; env; echo $OTHER", env={"OTHER": {"secret": "target-key"}})
            assert run.stdout.startswith("hello")
            assert run.stdout.count("stead-ph-") == 3
            (used,) = [host for host in box.network.report()["used"] if "target" in host["host"]]
            assert used["connections"] == 1
            journal = str(list(box.events(follow=False))) + str(client.secrets.list())
        assert Target.received == [f"Bearer {SECRET}"]
        assert SECRET not in journal + run.stdout
    finally:
        client.request("PUT", "/platform", before)


def test_secrets_are_replaced_and_removed(client: Client) -> None:
    client.secrets.set("rotated", "first-value", ["a.example.com"])
    again = client.secrets.set("rotated", "second-value", ["b.example.com:8443"], header="x-api-key", as_="key {}")
    assert (again["version"], again["hosts"], again["as"]) == (2, ["b.example.com:8443"], "key {}")
    with pytest.raises(BadRequest) as raised:
        client.secrets.set("rotated", "third-value", [])
    assert [error["field"] for error in raised.value.errors] == ["hosts"]
    client.secrets.remove("rotated")
    with pytest.raises(NotFound):
        client.secrets.get("rotated")
    with pytest.raises(BadRequest, match="no secret 'rotated' is usable here"):
        Sandbox.create(env={"KEY": {"secret": "rotated"}}, client=client)
