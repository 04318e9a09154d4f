// The official TypeScript client of the Model Context Protocol against a Stead server, over HTTP and over pipes.
//
// Usage: node mcp_client.mjs URL STEAD SESSION   (the session token is read from STEAD_TOKEN)
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, stead, session] = process.argv.slice(2);

async function use(name, transport) {
  const client = new Client({ name: "compat", version: "1" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  assert(names.includes("bash") && !names.includes("rm"), names.join(" "));
  // The client checks structured results against the tools' output schemas by itself.
  const path = `ts-${name}.txt`;
  const written = await client.callTool({ name: "write", arguments: { path, content: "é\n" } });
  assert.equal(written.isError, false, JSON.stringify(written));
  const listed = await client.callTool({ name: "ls", arguments: { path: "/" } });
  assert(listed.structuredContent.entries.some((entry) => entry.path === path), JSON.stringify(listed));
  const ran = await client.callTool({ name: "bash", arguments: { command: `cat ${path}` } });
  assert.equal(ran.structuredContent.stdout, "é\n");
  const refused = await client.callTool({ name: "rm", arguments: { path } });
  assert.equal(refused.content[0].text, "Tool 'rm' is not enabled for this agent type");
  await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }), /no_such_tool/);
  const read = await client.readResource({ uri: `stead://workspace/${path}` });
  assert.equal(read.contents[0].text, "é\n");
  await client.close();
  console.log(`typescript ${name}: ok`);
}

const headers = { Authorization: `Bearer ${process.env.STEAD_TOKEN}` };
await use("http", new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
await use("stdio", new StdioClientTransport({ command: stead, args: ["mcp", "--session", session], env: { ...process.env } }));
