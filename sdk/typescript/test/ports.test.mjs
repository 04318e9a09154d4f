// Servers in a box, and what a box reaches.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, test } from "node:test";

import { BadRequest, Forbidden, NotFound, Sandbox, SteadError } from "@stead/sdk";

import { allowNetwork } from "./network-policy.mjs";

const box = await Sandbox.create();
await allowNetwork(box.client);
after(() => box.close());

// Answers with the headers that it received and with a status that the path names.
const HTTP_SERVER = `
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = json.dumps({"path": self.path, "headers": dict(self.headers), "bytes": len(body)}).encode()
        self.send_response(int(self.path[1:4]))
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    do_GET = do_POST
http.server.ThreadingHTTPServer(("127.0.0.1", 8001), Handler).serve_forever()
`;

// Speaks first, then sends back everything until the end.
const ECHO_SERVER = `
import socketserver
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello ")
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 64
Server(("127.0.0.1", 8002), Handler).serve_forever()
`;

async function start(script, port) {
  await box.files.write(`server-${port}.py`, script);
  await box.commands.start(["python3", `server-${port}.py`]);
  await box.ports.wait(port);
}

async function received(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

await start(HTTP_SERVER, 8001);
await start(ECHO_SERVER, 8002);

test("answers of a program are not errors, and the token does not reach it", async () => {
  const body = new Uint8Array(1_000_000);
  for (const status of [200, 302, 404, 502, 503]) {
    const headers = { "X-Own": "1", authorization: "Bearer mine" };
    const answer = await box.ports.request(8001, `/${status}/a?b=c%20d`, { method: "POST", body, headers });
    assert.equal(answer.status, status);
    const seen = await answer.json();
    assert.deepEqual([seen.bytes, seen.path], [body.length, `/${status}/a?b=c%20d`]);
    const names = Object.keys(seen.headers).map((name) => name.toLowerCase());
    assert.deepEqual([names.includes("x-own"), names.includes("authorization"), names.includes("cookie")], [true, false, false]);
  }
});

test("refusals of the server are thrown", async () => {
  await assert.rejects(box.ports.request(9), { code: "nothing_listens", status: 502 });
  await assert.rejects(box.ports.connect(9), { code: "nothing_listens", status: 502 });
  await assert.rejects(box.ports.wait(9, { timeout: 0.2 }), { code: "nothing_listens" });
  const workspace = { enabled: true, workspace_policy: "empty", require_workspace: true, ports: [] };
  await box.client.request("POST", "/agent-types", { id: "no-ports", workspace });
  const shut = await Sandbox.create({ agentType: "no-ports" });
  try {
    await assert.rejects(shut.ports.connect(8000), Forbidden);
    await assert.rejects(shut.host(8000), Forbidden);
  } finally {
    await shut.close();
  }
});

test("a raw connection carries any bytes", async () => {
  const data = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte).concat(Array(500_000).fill(7)));
  const connection = await box.ports.connect(8002);
  connection.end(data);
  assert.ok((await received(connection)).equals(Buffer.concat([Buffer.from("hello "), data])));
});

test("a local listener serves many programs, and its end ends them", async () => {
  const forward = await box.ports.forward(8002);
  const use = async (number) => {
    const socket = connect({ port: forward.port, host: "127.0.0.1", allowHalfOpen: true });
    socket.end(String(number).repeat(50_000));
    return (await received(socket)).toString();
  };
  const answers = await Promise.all(Array.from({ length: 24 }, (_, number) => use(number)));
  answers.forEach((answer, number) => assert.equal(answer, `hello ${String(number).repeat(50_000)}`));

  await assert.rejects(box.ports.forward(8002, forward.port), { code: "address_in_use" });
  const { port } = forward;
  const waiting = connect(port, "127.0.0.1");
  waiting.on("error", () => {});
  await once(waiting, "data");
  const ended = once(waiting, "close");
  await forward[Symbol.asyncDispose]();
  await ended;
  const refused = connect(port, "127.0.0.1");
  const [error] = await once(refused, "error");
  assert.equal(error.code, "ECONNREFUSED");

  const nothing = await box.ports.forward(9);
  await assert.rejects(fetch(nothing.url));
  await nothing.close();
});

test("a refused host has the rule that would allow it", async () => {
  const made = await Sandbox.create({ agentType: "fetcher" });
  try {
    await made.commands.run("curl -sS --max-time 20 https://other.example.com/ || true");
    const { used, refused } = await made.network.report();
    assert.deepEqual(used, []);
    assert.deepEqual(refused.map((one) => [one.host, one.port, one.why, one.layer]), [["other.example.com", 443, "not_allowed", "agent_type"]]);
    await made.network.grant([refused[0].draft], 600);
    const hosts = async () => [...new Set((await made.network.report()).reachable.map((one) => one.host))].sort();
    assert.deepEqual(await hosts(), ["api.example.com", "other.example.com"]);
    await made.network.narrow(["other.example.com"]);
    assert.deepEqual(await hosts(), ["api.example.com"]);
    await assert.rejects(made.network.grant(["elsewhere.example.org"], 600), SteadError);
  } finally {
    await made.close();
  }
});

test("secrets are replaced and removed", async () => {
  const { secrets } = box.client;
  await secrets.set("rotated", "first-value", { hosts: ["a.example.com"] });
  const again = await secrets.set("rotated", "second-value", { hosts: ["b.example.com:8443"], header: "x-api-key", as: "key {}" });
  assert.deepEqual([again.version, again.hosts, again.as], [2, ["b.example.com:8443"], "key {}"]);
  const wrong = await secrets.set("rotated", "third-value", { hosts: [] }).catch((error) => error);
  assert.ok(wrong instanceof BadRequest);
  assert.deepEqual(wrong.errors.map((one) => one.field), ["hosts"]);
  assert.ok(!JSON.stringify(await secrets.list()).includes("second-value"));
  await secrets.remove("rotated");
  await assert.rejects(secrets.get("rotated"), NotFound);
  await assert.rejects(Sandbox.create({ env: { KEY: { secret: "rotated" } } }), BadRequest);
});
