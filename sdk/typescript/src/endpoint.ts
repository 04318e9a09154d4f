/** The server that a client uses: `url` or `STEAD_URL`, else the server that runs on the home. */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join, resolve as absolute } from "node:path";

import { SteadError } from "./errors.js";

export interface Endpoint {
  url: string;
  token: string | undefined;
}

export async function resolve(url: string | undefined, token: string | undefined): Promise<Endpoint> {
  const named = url ?? nonEmpty(process.env["STEAD_URL"]);
  const given = token ?? nonEmpty(process.env["STEAD_TOKEN"]);
  const chosen = named ?? (await runningUrl());
  if (chosen === undefined) {
    throw new SteadError("no server is known", {
      code: "no_server",
      hint: "start one with `stead up`, or set STEAD_URL and STEAD_TOKEN",
    });
  }
  let parsed: URL;
  try {
    parsed = new URL(chosen);
  } catch (cause) {
    throw new SteadError(`${JSON.stringify(chosen)} is not the URL of a server`, { code: "invalid_url", cause });
  }
  if (!["http:", "https:"].includes(parsed.protocol)) {
    throw new SteadError(`${JSON.stringify(chosen)} is not the URL of a server`, {
      code: "invalid_url",
      hint: "write http://HOST:PORT",
    });
  }
  // The token of the home goes to no other machine.
  const own = given ?? (isLoopback(parsed.hostname) ? await read("token") : undefined);
  return { url: chosen.replace(/\/+$/, ""), token: own };
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === undefined || value === "" ? undefined : value;
}

function home(): string {
  const named = nonEmpty(process.env["STEAD_HOME"]);
  if (named !== undefined) return absolute(named);
  const data = process.env["XDG_DATA_HOME"] ?? "";
  return isAbsolute(data) ? join(data, "stead") : join(homedir(), ".local/share/stead");
}

async function read(name: string): Promise<string | undefined> {
  try {
    return nonEmpty((await readFile(join(home(), name), "utf8")).trim());
  } catch {
    return undefined;
  }
}

/** Returns the URL that a server on this home announced. Only a loopback address is accepted. */
async function runningUrl(): Promise<string | undefined> {
  try {
    const announced: unknown = JSON.parse((await read("server.json")) ?? "null");
    const url = (announced as { url?: unknown } | null)?.url;
    return typeof url === "string" && isLoopback(new URL(url).hostname) ? url : undefined;
  } catch {
    return undefined;
  }
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
