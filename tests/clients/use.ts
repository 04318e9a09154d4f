// Uses the generated TypeScript client: makes a session, calls a tool, runs a command, reads a file and closes.

import assert from "node:assert/strict";

import { client } from "./stead_client/client.gen.js";
import {
  callTool,
  closeSession,
  createAgentType,
  createExec,
  createSession,
  readFile,
} from "./stead_client/index.js";

client.setConfig({ baseUrl: process.env.STEAD_URL, auth: process.env.STEAD_TOKEN });
const throwOnError = true;

const agentType = await createAgentType({
  body: {
    id: "typescript-client",
    workspace: { enabled: true, provider: "native", workspace_policy: "empty", tools: ["bash", "read", "write"] },
  },
  throwOnError,
});

const created = await createSession({
  body: { agent_type: agentType.data.id, task: { prompt: "Say hello." } },
  query: { wait: 60 },
  throwOnError,
});
const session = created.data;
assert.equal(session.status, "active");
const path = { id: session.id };

const written = await callTool({
  path: { ...path, tool: "write" },
  body: { path: "hello.txt", content: "hello\n" },
  throwOnError,
});
assert.equal(written.data.ok, true);

const ran = await createExec({ path, body: { command: "tr a-z A-Z < hello.txt > loud.txt; cat loud.txt" }, throwOnError });
assert.deepEqual([ran.data.status, ran.data.exit_code, ran.data.stdout], ["finished", 0, "HELLO\n"]);

const loud = await readFile({ path: { ...path, path: "loud.txt" }, parseAs: "text", throwOnError });
assert.equal(loud.data, "HELLO\n");

const closed = await closeSession({ path, throwOnError });
assert.equal(closed.response.status, 204);
console.log(`the TypeScript client used ${session.id}`);
