// The same calls to the reference MCP server for files and to a Stead session with the profile `mcp-filesystem`.
//
// Usage: node file_server.mjs URL SERVER FOLDER DIFFERENCES   (the session token is read from STEAD_TOKEN)
// FOLDER is an empty directory for the reference server. The session's workspace starts empty, too. DIFFERENCES is a YAML-like list of
// `- name: reason`. A call that differs and is not listed fails, as does a listed one that does not differ.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, server, folder, list] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.STEAD_TOKEN}` };
const reference = new Client({ name: "compat", version: "1" });
await reference.connect(new StdioClientTransport({ command: process.execPath, args: [server, folder], stderr: "ignore" }));
const stead = new Client({ name: "compat", version: "1" });
await stead.connect(new StreamableHTTPClientTransport(new URL(`${url}?profile=mcp-filesystem`), { requestInit: { headers } }));

const known = new Map();
for (const line of readFileSync(list, "utf8").split("\n")) {
  const found = line.match(/^- ([^:]+): (.+)$/);
  if (found) known.set(found[1], found[2]);
}

const ROOT = "/workspace";
const long = Array.from({ length: 40 }, (_, line) => `line ${line + 1}`).join("\n") + "\n";
// Name, tool, arguments. `@` stands for the root directory of each side.
const CALLS = [
  ["write a file", "write_file", { path: "@/a.txt", content: "one\ntwo\nthree\n" }],
  ["overwrite a file", "write_file", { path: "@/a.txt", content: "one\ntwo\nthree\nfour\n" }],
  ["write without an end of line", "write_file", { path: "@/open.txt", content: "x\ny" }],
  ["write a long file", "write_file", { path: "@/long.txt", content: long }],
  ["write an empty file", "write_file", { path: "@/empty.txt", content: "" }],
  ["write a hidden file", "write_file", { path: "@/.hidden", content: "h" }],
  ["write a picture", "write_file", { path: "@/p.svg", content: "<svg/>" }],
  ["make a directory", "create_directory", { path: "@/src" }],
  ["make it again", "create_directory", { path: "@/src" }],
  ["make nested directories", "create_directory", { path: "@/src/deep/er" }],
  ["write in a directory", "write_file", { path: "@/src/main.py", content: "def f():\n    if x:\n        return 1\n    return 2\n" }],
  ["write further down", "write_file", { path: "@/src/deep/er/far.py", content: "x = 1\n" }],
  ["read a file", "read_text_file", { path: "@/a.txt" }],
  ["read a file by the old name", "read_file", { path: "@/a.txt" }],
  ["read an empty file", "read_text_file", { path: "@/empty.txt" }],
  ["read without an end of line", "read_text_file", { path: "@/open.txt" }],
  ["read the first lines", "read_text_file", { path: "@/a.txt", head: 2 }],
  ["read more first lines than there are", "read_text_file", { path: "@/a.txt", head: 20 }],
  ["read the last lines", "read_text_file", { path: "@/a.txt", tail: 2 }],
  ["read the last lines without an end of line", "read_text_file", { path: "@/open.txt", tail: 1 }],
  ["read first and last lines", "read_text_file", { path: "@/a.txt", head: 1, tail: 1 }],
  ["read a missing file", "read_text_file", { path: "@/no.txt" }],
  ["read a directory", "read_text_file", { path: "@/src" }],
  ["read a picture", "read_media_file", { path: "@/p.svg" }],
  ["read another file as media", "read_media_file", { path: "@/a.txt" }],
  ["read several files", "read_multiple_files", { paths: ["@/a.txt", "@/open.txt"] }],
  ["read several files of which one is missing", "read_multiple_files", { paths: ["@/a.txt", "@/no.txt"] }],
  ["read no files", "read_multiple_files", { paths: [] }],
  ["show an edit", "edit_file", { path: "@/a.txt", edits: [{ oldText: "two", newText: "2" }], dryRun: true }],
  ["read after showing an edit", "read_text_file", { path: "@/a.txt" }],
  ["edit", "edit_file", { path: "@/a.txt", edits: [{ oldText: "two", newText: "2" }] }],
  ["read after an edit", "read_text_file", { path: "@/a.txt" }],
  ["edit twice", "edit_file", { path: "@/a.txt", edits: [{ oldText: "one", newText: "1" }, { oldText: "four", newText: "4\n5" }] }],
  ["edit the first of several", "edit_file", { path: "@/long.txt", edits: [{ oldText: "line 1", newText: "LINE 1" }] }],
  ["edit in two places", "edit_file", { path: "@/long.txt", edits: [{ oldText: "line 5\n", newText: "" }, { oldText: "line 30", newText: "a\nb" }] }],
  ["edit without an end of line", "edit_file", { path: "@/open.txt", edits: [{ oldText: "y", newText: "z" }] }],
  ["edit with other indentation", "edit_file", { path: "@/src/main.py", edits: [{ oldText: "if x:\n    return 1", newText: "if y:\n    return 3" }] }],
  ["read after an edit with other indentation", "read_text_file", { path: "@/src/main.py" }],
  ["edit a text with backticks", "edit_file", { path: "@/a.txt", edits: [{ oldText: "three", newText: "```" }] }],
  ["edit what is not there", "edit_file", { path: "@/a.txt", edits: [{ oldText: "nine", newText: "9" }] }],
  ["edit partly what is not there", "edit_file", { path: "@/a.txt", edits: [{ oldText: "1", newText: "one" }, { oldText: "nine", newText: "9" }] }],
  ["read after an edit that failed", "read_text_file", { path: "@/a.txt" }],
  ["list the root", "list_directory", { path: "@" }],
  ["list a directory", "list_directory", { path: "@/src" }],
  ["list a missing directory", "list_directory", { path: "@/no" }],
  ["list a file", "list_directory", { path: "@/a.txt" }],
  ["list with sizes", "list_directory_with_sizes", { path: "@" }],
  ["list with sizes by size", "list_directory_with_sizes", { path: "@", sortBy: "size" }],
  ["show a tree", "directory_tree", { path: "@" }],
  ["show a tree without a name", "directory_tree", { path: "@", excludePatterns: ["deep"] }],
  ["show a tree without a pattern", "directory_tree", { path: "@", excludePatterns: ["**/*.py"] }],
  ["search files", "search_files", { path: "@", pattern: "**/*.py" }],
  ["search at the top", "search_files", { path: "@", pattern: "*.txt" }],
  ["search directories", "search_files", { path: "@", pattern: "**/deep" }],
  ["search with an exclusion", "search_files", { path: "@", pattern: "**/*.py", excludePatterns: ["**/deep/**"] }],
  ["search hidden files", "search_files", { path: "@", pattern: "*" }],
  ["search nothing", "search_files", { path: "@", pattern: "*.rs" }],
  ["move a file", "move_file", { source: "@/open.txt", destination: "@/src/moved.txt" }],
  ["move onto a file", "move_file", { source: "@/a.txt", destination: "@/src/moved.txt" }],
  ["move a missing file", "move_file", { source: "@/no.txt", destination: "@/yes.txt" }],
  ["move a directory", "move_file", { source: "@/src/deep", destination: "@/deep" }],
  ["describe a file", "get_file_info", { path: "@/a.txt" }],
  ["describe a directory", "get_file_info", { path: "@/src" }],
  ["describe a missing file", "get_file_info", { path: "@/no" }],
  ["list the directories", "list_allowed_directories", {}],
  ["write below a missing directory", "write_file", { path: "@/missing/a.txt", content: "x" }],
  ["leave", "read_text_file", { path: "@/../../etc/passwd" }],
];

function placed(value, root) {
  return JSON.parse(JSON.stringify(value).replaceAll("@", root));
}

/// The answer without what differs by nature: root directories, times, the order of a directory's entries, the words of an error.
function plain(tool, answer, root) {
  if (answer.isError) return { error: true };
  let text = JSON.stringify(answer.content).replaceAll(root, "@");
  if (tool === "directory_tree") return sorted(JSON.parse(JSON.parse(text)[0].text));
  const lines = text.split("\\n");
  if (tool === "get_file_info") return lines.filter((line) => !/^(created|modified|accessed|.*permissions): ?/.test(line));
  return /^(list_directory|search_files)/.test(tool) ? parts(text) : text;
}

function parts(text) {
  return JSON.parse(text)[0].text.split("\n").sort();
}

function sorted(nodes) {
  const ordered = [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
  return ordered.map((node) => (node.children ? { ...node, children: sorted(node.children) } : node));
}

async function call(client, tool, given) {
  try {
    return await client.callTool({ name: tool, arguments: given });
  } catch (error) {
    return { isError: true, content: [], error: String(error) };
  }
}

const names = async (client) => (await client.listTools()).tools.map((tool) => tool.name).sort();
assert.deepEqual(await names(stead), await names(reference));
for (const tool of (await reference.listTools()).tools) {
  const own = (await stead.listTools()).tools.find((other) => other.name === tool.name);
  const parameters = (schema) => Object.keys(schema.properties ?? {}).sort();
  assert.deepEqual(parameters(own.inputSchema), parameters(tool.inputSchema), tool.name);
  assert.deepEqual([...(own.inputSchema.required ?? [])].sort(), [...(tool.inputSchema.required ?? [])].sort(), tool.name);
}

const wrong = [];
for (const [name, tool, given] of CALLS) {
  const [theirs, ours] = [await call(reference, tool, placed(given, folder)), await call(stead, tool, placed(given, ROOT))];
  const [expected, found] = [plain(tool, theirs, folder), plain(tool, ours, ROOT)];
  let same = true;
  try {
    assert.deepEqual(found, expected);
  } catch {
    same = false;
  }
  if (same === known.has(name)) {
    wrong.push(same ? `${name}: is listed and does not differ` : `${name}:\n  theirs ${JSON.stringify(theirs)}\n  ours   ${JSON.stringify(ours)}`);
  }
  known.delete(name);
}
for (const name of known.keys()) wrong.push(`${name}: is listed and is no call`);
await reference.close();
await stead.close();
assert.equal(wrong.length, 0, `\n${wrong.join("\n")}`);
console.log(`file server: ${CALLS.length} calls answered alike`);
