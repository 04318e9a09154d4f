// Every public method has an example, and the example runs on a real server.
//
// `expression //=> value` compares the two. An example can use `box` (a new sandbox), `client`, `tmp` (a new folder), `fs`
// and everything that the package exports.

import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import { test } from "node:test";

import ts from "typescript";

import * as sdk from "@stead/sdk";

import { allowNetwork } from "./network-policy.mjs";

const CLASSES = ["Client", "Command", "Commands", "Files", "Forward", "Network", "Ports", "Run", "Runs", "Sandbox", "Secrets", "SetupResults"];
const SOURCES = process.env.STEAD_SDK_SOURCES;
const AsyncFunction = (async () => {}).constructor;

/** Returns the public methods of the exported classes with their examples. */
async function documented() {
  const found = [];
  for (const file of (await fs.readdir(SOURCES)).filter((name) => name.endsWith(".ts"))) {
    const text = await fs.readFile(`${SOURCES}/${file}`, "utf8");
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
    for (const kind of source.statements.filter(ts.isClassDeclaration)) {
      if (!CLASSES.includes(kind.name.text)) continue;
      for (const method of kind.members.filter(ts.isMethodDeclaration)) {
        const tags = ts.getJSDocTags(method);
        if (!ts.isIdentifier(method.name) || tags.some((tag) => tag.tagName.text === "internal")) continue;
        const example = tags.find((tag) => tag.tagName.text === "example");
        found.push({ name: `${kind.name.text}.${method.name.text}`, example: ts.getTextOfJSDocComment(example?.comment) });
      }
    }
  }
  return found;
}

/** Returns the example as the body of a function. */
function body(example) {
  return example.replace(/^(?!\s*(?:const|let)\b)(.*?);?\s*\/\/=> (.*)$/gm, "assert.deepEqual($1, $2);");
}

const methods = await documented();
await allowNetwork(new sdk.Client());

test("every class has public methods", () => {
  for (const name of CLASSES) assert.ok(methods.some((method) => method.name.startsWith(`${name}.`)), name);
});

for (const { name, example } of methods) {
  test(name, async () => {
    assert.ok(example, `${name} has no example`);
    assert.match(example, /\/\/=> /, `the example of ${name} shows no result`);
    const client = new sdk.Client();
    const box = await sdk.Sandbox.create({ client });
    const tmp = await fs.mkdtemp(`${tmpdir()}/stead-sdk-`);
    try {
      const scope = { ...sdk, assert, fs, client, box, tmp };
      await new AsyncFunction(...Object.keys(scope), body(example))(...Object.values(scope));
    } finally {
      await box.close();
      await fs.rm(tmp, { recursive: true });
    }
  });
}
