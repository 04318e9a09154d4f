"""A small client of Stead's HTTP API for the adapters beside it: standard library only."""

import base64
import http.client
import json
import os
import urllib.parse
import uuid


class Refused(Exception):
    """The server said no; `problem` is its RFC 9457 body."""

    def __init__(self, problem):
        super().__init__(problem.get("detail", str(problem)))
        self.problem = problem
        self.code = problem.get("code")


class Server:
    def __init__(self, url=None, token=None):
        self.url = urllib.parse.urlsplit(url or os.environ["STEAD_URL"])
        self.token = token or os.environ["STEAD_TOKEN"]

    def send(self, method, path, body=None, headers=None):
        """Gives the open answer; the caller reads and closes it."""
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=600)
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        connection.request(method, f"/api/v1{path}", body=body, headers=sent)
        answer = connection.getresponse()
        if answer.status >= 400:
            text = answer.read()
            connection.close()
            try:
                problem = json.loads(text)
            except ValueError:
                problem = {"status": answer.status}
            raise Refused(problem)
        return answer

    def json(self, method, path, body=None):
        headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
        answer = self.send(method, path, None if body is None else json.dumps(body).encode(), headers)
        text = answer.read()
        return json.loads(text) if text else None


class Finished:
    def __init__(self, exec, stdout, stderr):
        self.exec, self.stdout, self.stderr = exec, stdout, stderr
        self.exit_code, self.timed_out = exec["exit_code"], exec["timed_out"]
        self.error = exec["error"]


class Session:
    """One session of the agent type `compat`, which is declared here if it is not there."""

    AGENT_TYPE = {
        "id": "compat",
        "workspace": {"enabled": True, "provider": "native", "workspace_policy": "empty"},
    }

    def __init__(self, server=None):
        self.server = server or Server()
        try:
            self.server.json("POST", "/agent-types", self.AGENT_TYPE)
        except Refused as refused:
            if refused.code != "conflict":
                raise
        self.data = self.server.json("POST", "/sessions?wait=60", {"agent_type": "compat"})
        assert self.data["status"] == "active" and not self.data["degraded"], self.data
        self.id = self.data["id"]

    def close(self):
        self.server.json("DELETE", f"/sessions/{self.id}")

    def _file(self, path):
        return f"/sessions/{self.id}/files/{urllib.parse.quote(path.lstrip('/'))}"

    def write(self, path, content):
        self.server.send("PUT", self._file(path) + "?mkdir=1", content, {"Content-Type": "application/octet-stream"}).read()

    def read(self, path):
        return self.server.send("GET", self._file(path)).read()

    def run(self, argv=None, command=None, input=None, cwd=None, env=None, timeout=None, most=None):
        """Runs a command to its end; the output is all of it, from the stream, unless it is more than `most` bytes."""
        order = {"background": True, "stdin": input is not None, "unread": "wait"}
        order |= {"argv": argv} if command is None else {"command": command}
        optional = {"cwd": cwd, "env": env, "timeout_seconds": timeout}
        order |= {name: value for name, value in optional.items() if value is not None}
        exec = self.server.json("POST", f"/sessions/{self.id}/execs", order)
        path = f"/sessions/{self.id}/execs/{exec['id']}"
        if exec["status"] == "running" and input is not None:
            self._feed(path, input)
        return self._follow(path, most)

    def _feed(self, path, input):
        piece = 256 * 1024
        for start in range(0, max(len(input), 1), piece):
            part = input[start : start + piece]
            body = {"data": base64.b64encode(part).decode(), "encoding": "base64", "close": start + piece >= len(input)}
            try:
                self.server.json("POST", path + "/stdin", body)
            except Refused:
                return  # it ended without reading all of it

    def _follow(self, path, most):
        output = {"stdout": bytearray(), "stderr": bytearray()}
        stream = self.server.send("GET", path + "/stream", headers={"Accept": "text/event-stream"})
        kind = None
        for line in stream:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                kind = value
            elif field == "data":
                data = json.loads(value)
                if kind == "output":
                    text = data["data"]
                    bytes_ = base64.b64decode(text) if data["encoding"] == "base64" else text.encode()
                    output[data["stream"]] += bytes_
                    if most is not None and len(output[data["stream"]]) > most:
                        self.server.json("DELETE", path)
                        raise OverflowError(data["stream"])
                elif kind == "missed":
                    raise RuntimeError(f"output was missed: {data}")
                elif kind == "finished":
                    stream.close()
                    return Finished(data, bytes(output["stdout"]), bytes(output["stderr"]))
        raise ConnectionError("the stream ended before the command")
