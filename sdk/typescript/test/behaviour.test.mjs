// Behaviour that examples do not show: errors, retries, streams, hostile archives.

import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { after, test } from "node:test";

import {
  BadRequest,
  Client,
  CommandFailed,
  ConnectionFailed,
  NotFound,
  ProvisioningFailed,
  Sandbox,
  SteadError,
  Unauthorized,
} from "@stead/sdk";

import { pack, unpack } from "../dist/archive.js";

const tmp = await fs.mkdtemp(`${tmpdir()}/stead-sdk-`);
const box = await Sandbox.create();
after(async () => {
  await box.close();
  await fs.rm(tmp, { recursive: true });
});

test("errors are classes with code, hint, request id and fields", async () => {
  const missing = await Sandbox.connect("ses_00000000000000000000000000").catch((error) => error);
  assert.ok(missing instanceof NotFound && missing instanceof SteadError && missing instanceof Error);
  assert.deepEqual([missing.name, missing.code, missing.status], ["NotFound", "not_found", 404]);
  assert.match(missing.requestId, /\w/);

  const wrong = await box.client.request("POST", "/sessions", { agent_type: "base", colour: 1 }).catch((error) => error);
  assert.ok(wrong instanceof BadRequest);
  assert.deepEqual(wrong.errors.map((one) => one.field), ["colour"]);

  await assert.rejects(new Client({ token: "wrong" }).whoami(), Unauthorized);
  await assert.rejects(Sandbox.create({ repo: "x", dir: "y" }), { code: "invalid_request" });
  const unused = createServer();
  await new Promise((ready) => unused.listen(0, "127.0.0.1", ready));
  const { port } = unused.address();
  await new Promise((closed) => unused.close(closed));
  const nobody = await new Client({ url: `http://127.0.0.1:${port}`, retries: 0 }).whoami().catch((error) => error);
  assert.ok(nobody instanceof ConnectionFailed);
  assert.deepEqual([nobody.code, nobody.hint.includes("stead up")], ["unreachable", true]);
  await assert.rejects(new Client({ url: "ftp://example" }).whoami(), { code: "invalid_url" });
});

test("a sandbox without a workspace is an error, and is closed", async () => {
  await box.client.request("POST", "/agent-types", {
    id: "broken",
    workspace: { enabled: true, provider: "native", setup_commands: ["exit 3"], on_setup_failure: "fail", require_workspace: true },
  });
  await assert.rejects(Sandbox.create({ agentType: "broken" }), ProvisioningFailed);
});

test("commands: check, time limit, callbacks and standard input", async () => {
  const failed = await box.commands.run("echo why >&2; exit 4", { check: true }).catch((error) => error);
  assert.ok(failed instanceof CommandFailed);
  assert.deepEqual([failed.code, failed.result.exitCode, failed.message.includes("why")], ["exit_code", 4, true]);

  const late = await box.commands.run("sleep 60", { timeout: 1 });
  assert.deepEqual([late.timedOut, late.exitCode], [true, 124]);

  const lines = [];
  const said = await box.commands.run("cat; echo end >&2", {
    stdin: new TextEncoder().encode("one\ntwo"),
    onStdout: (line) => lines.push(line),
    onStderr: (line) => lines.push(line),
  });
  assert.deepEqual([lines.sort(), said.stdout, said.stderr], [["end", "one", "two"], "one\ntwo", "end\n"]);

  const large = "x".repeat(3 << 20);
  const counted = await box.commands.run("wc -c", { stdin: large });
  assert.equal(counted.stdout.trim(), String(large.length));

  await assert.rejects(
    box.commands.run("echo one; sleep 600", {
      onStdout: () => {
        throw new Error("enough");
      },
    }),
    /enough/,
  );
  const running = (await box.commands.list()).filter((one) => one.status === "running");
  assert.deepEqual(running, []);
});

test("a directory goes up and comes down as it is", async () => {
  const deep = `${tmp}/up/${"d".repeat(90)}/${"e".repeat(90)}`;
  await fs.mkdir(deep, { recursive: true });
  await fs.writeFile(`${deep}/ü.txt`, "long path");
  await fs.writeFile(`${tmp}/up/run.sh`, "#!/bin/sh\necho ran", { mode: 0o755 });
  await fs.symlink("run.sh", `${tmp}/up/link`);
  await fs.mkdir(`${tmp}/up/node_modules`);
  const made = await Sandbox.create({ dir: `${tmp}/up`, exclude: ["node_modules"] });
  try {
    assert.equal((await made.commands.run("./link")).stdout, "ran\n");
    await made.files.download("", `${tmp}/down`);
    assert.equal(await fs.readFile(`${tmp}/down/${"d".repeat(90)}/${"e".repeat(90)}/ü.txt`, "utf8"), "long path");
    assert.equal(await fs.readlink(`${tmp}/down/link`), "run.sh");
    assert.equal((await fs.stat(`${tmp}/down/run.sh`)).mode & 0o777, 0o755);
    await assert.rejects(fs.stat(`${tmp}/down/node_modules`));
  } finally {
    await made[Symbol.asyncDispose]();
  }
});

test("an archive cannot write outside of its directory", async () => {
  const archive = await pack(`${tmp}/up`);
  const changed = (from, to) => {
    const bytes = Buffer.from(archive);
    const at = bytes.indexOf(from);
    bytes.fill(0, at, at + from.length);
    bytes.write(to, at);
    return bytes;
  };
  for (const [from, to] of [["run.sh", "../x"], ["run.sh", "/tmp"]]) {
    await assert.rejects(unpack(changed(from, to), `${tmp}/hostile`), { code: "archive_refused" });
  }
  await fs.mkdir(`${tmp}/linked`);
  await fs.symlink(tmp, `${tmp}/linked/${"d".repeat(90)}`);
  await assert.rejects(unpack(archive, `${tmp}/linked`), { code: "archive_refused" });
});

test("a lost answer is asked for again, and nothing happens twice", async () => {
  let losses = 3;
  const target = new URL(await box.client.url());
  const proxy = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const forwarded = request({ host: target.hostname, port: target.port, method, path: url, headers: { ...headers, host: target.host } });
    incoming.pipe(forwarded);
    forwarded.on("response", (answer) => {
      // The server has done the work. Its answer never arrives.
      if (method === "POST" && losses-- > 0) {
        answer.resume();
        incoming.socket.destroy();
        return;
      }
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
  });
  await new Promise((ready) => proxy.listen(0, "127.0.0.1", ready));
  try {
    const client = new Client({ url: `http://127.0.0.1:${proxy.address().port}`, token: process.env.STEAD_TOKEN });
    const again = await Sandbox.connect(box.id, { client });
    const result = await again.commands.run("echo once >> count.txt; cat count.txt");
    assert.deepEqual([result.stdout, losses < 0], ["once\n", true]);
    // A tool call has no idempotency key, so it is not repeated.
    losses = 1;
    await assert.rejects(again.tool("write", { path: "b.txt", content: "x" }), { code: "connection_lost" });
  } finally {
    proxy.closeAllConnections();
    proxy.close();
  }
});

test("events are followed to the end", async () => {
  const made = await Sandbox.create();
  const types = [];
  const following = (async () => {
    for await (const event of made.events()) types.push(event.type);
  })();
  await made.files.write("a.txt", "x");
  await made.close();
  await following;
  assert.deepEqual([types[0], types.at(-1)], ["SessionCreated", "SessionClosed"]);
});

test("tool calls of each vendor get an answer in their format", async () => {
  const args = { path: "t.txt", content: "x" };
  const openai = await box.call({ id: "1", type: "function", function: { name: "write", arguments: JSON.stringify(args) } });
  assert.deepEqual([openai.role, openai.tool_call_id], ["tool", "1"]);
  const responses = await box.call({ type: "function_call", call_id: "2", name: "write", arguments: "{" });
  assert.deepEqual([responses.call_id, responses.output.includes("not JSON")], ["2", true]);
  assert.equal((await box.call({ name: "fly", arguments: {} })).isError, true);
  assert.equal((await box.call({ type: "tool_use", id: "3", name: "write", input: { ...args, path: "u.txt" } })).is_error, false);
  await assert.rejects(box.call({}), { code: "invalid_tool_call" });
  assert.equal((await box.tools("openai"))[0].type, "function");
});

test("100 sandboxes at once from one process", async () => {
  const boxes = await Promise.all(Array.from({ length: 100 }, () => Sandbox.create()));
  try {
    const results = await Promise.all(boxes.map((one, index) => one.commands.run(`echo ${index}`)));
    assert.deepEqual(results.map((result) => result.stdout), boxes.map((_, index) => `${index}\n`));
  } finally {
    await Promise.all(boxes.map((one) => one.close()));
  }
});
