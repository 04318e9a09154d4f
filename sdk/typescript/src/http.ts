/** Requests to the server: retries, errors, pages and streams. */

import { randomUUID } from "node:crypto";
import { request as plainRequest, type IncomingMessage } from "node:http";
import { request as tlsRequest } from "node:https";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

import { resolve, type Endpoint } from "./endpoint.js";
import { ConnectionFailed, fromResponse, type SteadError } from "./errors.js";
import { EventParser, type ServerEvent } from "./sse.js";

const ANSWER_MS = 60_000;
/** The server sends a heartbeat every 15 seconds. */
const SILENCE_MS = 45_000;
const FIRST_DELAY_MS = 100;
const MOST_DELAY_MS = 5_000;
const MOST_RETRY_AFTER_MS = 30_000;

export type Query = Record<string, string | number | boolean | undefined>;

export interface RequestOptions {
  /** JSON body. */
  body?: unknown;
  /** Raw body. */
  content?: string | Uint8Array<ArrayBuffer>;
  query?: Query;
  headers?: Record<string, string>;
  /** Sends an idempotency key, so that a repeated request has the effect of one. */
  creates?: boolean;
  /** Seconds for which the server may hold the answer. */
  patience?: number;
}

/** Returns the text as one segment of a path. */
export function segment(text: string): string {
  return encodeURIComponent(text);
}

export class Http {
  readonly #url: string | undefined;
  readonly #token: string | undefined;
  readonly #retries: number;
  #endpoint: Promise<Endpoint> | undefined;

  constructor(url: string | undefined, token: string | undefined, retries: number) {
    this.#url = url;
    this.#token = token;
    this.#retries = retries;
  }

  endpoint(): Promise<Endpoint> {
    this.#endpoint ??= resolve(this.#url, this.#token).catch((error: unknown) => {
      this.#endpoint = undefined;
      throw error;
    });
    return this.#endpoint;
  }

  /** Sends a request and returns the answer, or throws. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const headers: Record<string, string> = { ...options.headers };
    const body = options.body === undefined ? options.content : JSON.stringify(options.body);
    if (options.body !== undefined) headers["Content-Type"] = "application/json";
    if (options.creates) headers["Idempotency-Key"] = randomUUID();
    const repeatable = isRepeatable(method, headers);
    const wait = ANSWER_MS + 1000 * (options.patience ?? 0);
    for (let attempt = 0; ; attempt++) {
      const last = attempt >= this.#retries;
      let response: Response;
      try {
        response = await this.#send(method, path, options.query, headers, body, AbortSignal.timeout(wait));
      } catch (error) {
        const failed = await this.#lost(error);
        // A refused connection means that nothing was sent.
        if (last || !(repeatable || failed.code === "unreachable")) throw failed;
        await sleep(delay(attempt));
        continue;
      }
      if (response.ok) return response;
      const refusal = await refused(response);
      // 429 means that nothing was done. 503 may come in the middle of work.
      const again = response.status === 429 || (response.status === 503 && repeatable);
      if (last || !again) throw refusal;
      await sleep(delay(attempt, response.headers.get("Retry-After")));
    }
  }

  /** Sends a request and returns the JSON of the answer; null without a body. */
  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const response = await this.request(method, path, options);
    let text: string;
    try {
      text = await response.text();
    } catch (error) {
      throw await this.#lost(error);
    }
    return (text === "" ? null : JSON.parse(text)) as T;
  }

  async text(method: string, path: string, options: RequestOptions = {}): Promise<string> {
    return (await this.request(method, path, options)).text();
  }

  async bytes(method: string, path: string, options: RequestOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await (await this.request(method, path, options)).arrayBuffer());
  }

  /** Sends a request once to a program in a box and returns its answer, whatever the status is. A
   * refusal of the server is thrown. */
  async passOn(
    path: string,
    options: { method?: string; headers?: Record<string, string>; body?: string | Uint8Array<ArrayBuffer>; timeout?: number },
  ): Promise<Response> {
    const { url, token } = await this.endpoint();
    const headers = new Headers(options.headers);
    headers.delete("Authorization");
    if (token !== undefined) headers.set("Authorization", `Bearer ${token}`);
    const signal = AbortSignal.timeout(options.timeout === undefined ? ANSWER_MS : 1000 * options.timeout);
    const init = { method: options.method ?? "GET", headers, body: options.body ?? null, signal, redirect: "manual" } as const;
    const response = await fetch(`${url}/api/v1${path}`, init).catch(async (error: unknown) => {
      throw await this.#lost(error);
    });
    // The server sets this header on every answer of a program, and on none of its own.
    if (response.status >= 400 && !response.headers.has("cross-origin-resource-policy")) throw await refused(response);
    return response;
  }

  /** Upgrades a connection and returns its stream. */
  async upgrade(path: string, protocol: string): Promise<Duplex> {
    const { url, token } = await this.endpoint();
    const headers: Record<string, string> = { Connection: "upgrade", Upgrade: protocol };
    if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
    const request = (url.startsWith("https:") ? tlsRequest : plainRequest)(`${url}/api/v1${path}`, { headers, timeout: ANSWER_MS });
    return new Promise((opened, failed) => {
      request.on("error", (error) => {
        // `fetch` has the reason in `cause`.
        void this.#lost(new Error(error.message, { cause: error })).then(failed, failed);
      });
      request.on("timeout", () => request.destroy(new Error("no answer in time")));
      request.on("response", (answer) => {
        void whole(answer).then((body) => {
          failed(fromResponse(answer.statusCode ?? 0, body, answer.headers["x-request-id"]?.toString()));
        }, failed);
      });
      request.on("upgrade", (_, stream, first) => {
        stream.setTimeout(0);
        if (first.length > 0) stream.unshift(first);
        opened(stream);
      });
      request.end();
    });
  }

  /** Returns the items of all pages of a list. */
  async pages<T>(path: string, query: Query = {}): Promise<T[]> {
    const items: T[] = [];
    const headers = { Accept: "application/json" };
    let asked = query;
    for (;;) {
      const page = await this.json<{ items: T[]; next_cursor?: string | null }>("GET", path, { query: asked, headers });
      items.push(...page.items);
      if (page.next_cursor == null) return items;
      // The server takes one of the two.
      asked = { ...query, after: undefined, cursor: page.next_cursor };
    }
  }

  /** Yields the events of a stream. After a lost connection it continues behind the last one. */
  async *events(path: string, after: number): AsyncGenerator<ServerEvent, void, undefined> {
    let failures = 0;
    for (;;) {
      const before = after;
      try {
        for await (const event of this.#stream(path, after)) {
          failures = 0;
          yield event;
          if (event.id !== undefined) after = Number(event.id);
        }
        // The server ended the stream in order.
        if (after === before && ++failures > this.#retries) return;
      } catch (error) {
        if (!(error instanceof ConnectionFailed) || ++failures > this.#retries) throw error;
      }
      await sleep(delay(failures));
    }
  }

  async *#stream(path: string, after: number): AsyncGenerator<ServerEvent, void, undefined> {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const headers = { Accept: "text/event-stream" };
      let response: Response;
      try {
        response = await this.#send("GET", path, { after: after || undefined }, headers, undefined, silence.signal);
      } catch (error) {
        throw await this.#lost(error);
      }
      if (!response.ok) throw await refused(response);
      const parser = new EventParser();
      const reader = response.body?.getReader();
      while (reader !== undefined) {
        const read = await reader.read().catch(async (error: unknown) => {
          throw await this.#lost(error);
        });
        if (read.done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        yield* parser.feed(read.value);
      }
    } finally {
      clearTimeout(timer);
      // Ends the request if the caller stops before its end.
      silence.abort();
    }
  }

  async #send(
    method: string,
    path: string,
    query: Query | undefined,
    headers: Record<string, string>,
    body: string | Uint8Array<ArrayBuffer> | undefined,
    signal: AbortSignal,
  ): Promise<Response> {
    const { url, token } = await this.endpoint();
    const sent: Record<string, string> = { "User-Agent": "stead-typescript/0.1.0", ...headers };
    if (token !== undefined) sent["Authorization"] = `Bearer ${token}`;
    const target = `${url}/api/v1${path}${written(query)}`;
    // A redirect would send the token to another server.
    return fetch(target, { method, headers: sent, body: body ?? null, signal, redirect: "error" });
  }

  /** Converts an error of `fetch`. Errors of this package stay as they are. */
  async #lost(error: unknown): Promise<SteadError> {
    const { url } = await this.endpoint();
    const cause = error instanceof Error ? (error.cause as { code?: string; message?: string } | undefined) : undefined;
    const reason = cause?.message ?? (error instanceof Error ? error.message : String(error));
    if (["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(cause?.code ?? "")) {
      const hint = "start it with `stead up`, or set STEAD_URL";
      return new ConnectionFailed(`no Stead server answers at ${url}: ${reason}`, { code: "unreachable", hint, cause: error });
    }
    const message = `the connection to ${url} was lost before the answer was complete: ${reason}`;
    return new ConnectionFailed(message, { code: "connection_lost", cause: error });
  }
}

/** True if the same request again has the effect of one request. A conditional write does not: if
 * its first answer is lost, the second fails. */
function isRepeatable(method: string, headers: Record<string, string>): boolean {
  if ("If-Match" in headers && method !== "GET") return false;
  return ["GET", "HEAD", "PUT", "DELETE"].includes(method) || "Idempotency-Key" in headers;
}

function delay(attempt: number, retryAfter?: string | null): number {
  const backoff = Math.min(FIRST_DELAY_MS * 2 ** attempt, MOST_DELAY_MS) * (0.5 + Math.random() / 2);
  const asked = Number(retryAfter ?? 0) * 1000;
  return Math.max(backoff, Math.min(Number.isFinite(asked) ? asked : 0, MOST_RETRY_AFTER_MS));
}

function written(query: Query | undefined): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  const parameters = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? "" : `?${parameters}`;
}

async function whole(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

async function refused(response: Response): Promise<SteadError> {
  const body = await response.text().catch(() => "");
  return fromResponse(response.status, body, response.headers.get("x-request-id") ?? undefined);
}
