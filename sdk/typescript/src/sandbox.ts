/** A sandbox: a session of the server with its own files and its own box. */

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";

import type {
  Blame,
  Diff,
  Event,
  Moment,
  Prompt,
  Replay,
  Restored,
  Rewound,
  Session,
  SessionFold,
  Snapshot,
  ToolAnswer,
} from "./api.gen/types.gen.js";
import { pack } from "./archive.js";
import { shared, type Client } from "./client.js";
import { Commands, type EnvValue } from "./commands.js";
import { NotFound, ProvisioningFailed, SteadError, VerificationFailed } from "./errors.js";
import { Files, relative } from "./files.js";
import { segment, type Query } from "./http.js";
import { Network } from "./network.js";
import { Ports } from "./ports.js";
import { Runs } from "./runs.js";
import { answerMessage, answerText, inFormat, isForTheModel, readCall, refusalText, type ToolFormat } from "./tools.js";

/** Seconds that one request waits for a sandbox. */
const WAIT = 60;
const LONG = 200;
const SETTLED = ["active", "paused", "failed", "closed", "closing"];

export interface CreateOptions {
  /** Default: `base`, which has every tool and keeps checkpoints. */
  agentType?: string;
  /** The files are a checkout of this repository, at `branch`. */
  repo?: string;
  branch?: string;
  /** The files are a copy of this directory, without the names in `exclude`. */
  dir?: string;
  exclude?: string[];
  /** The files are those of this archive. */
  bundle?: string;
  /** An imported image for the box. */
  image?: string;
  /** A value is a text, or `{ secret: NAME }` for the placeholder of a secret. */
  env?: Record<string, EnvValue>;
  /** What the sandbox may reach. Without it there is no network. */
  network?: Record<string, unknown>;
  content?: Record<string, unknown>;
  prompt?: string;
  metadata?: Record<string, unknown>;
  project?: string;
  /** Seconds after which the server closes the sandbox. */
  timeout?: number;
  client?: Client;
}

export interface ListOptions {
  status?: string;
  metadata?: Record<string, string>;
  agentType?: string;
  project?: string;
  owner?: string;
  client?: Client;
}

/** An isolated workspace with a box: commands, files, checkpoints, forks and a journal. */
export class Sandbox {
  readonly id: string;
  readonly client: Client;
  readonly commands: Commands;
  readonly files: Files;
  readonly runs: Runs;
  readonly ports: Ports;
  readonly network: Network;
  /** The session as the server last described it. `refresh` reads it again. */
  session: Session;
  readonly #path: string;

  constructor(client: Client, session: Session) {
    this.id = session.id;
    this.client = client;
    this.session = session;
    this.commands = new Commands(client.http, this.id);
    this.files = new Files(client.http, this.id);
    this.runs = new Runs(client.http, this.id);
    this.ports = new Ports(client.http, this.id);
    this.network = new Network(client.http, this.id);
    this.#path = `/sessions/${segment(this.id)}`;
  }

  /**
   * Makes a sandbox and waits until it is ready.
   *
   * @example
   * const made = await Sandbox.create({ env: { MODE: "test" }, metadata: { team: "a" }, timeout: 600 });
   * (await made.commands.run("echo $MODE")).stdout //=> "test\n"
   * await made.close();
   */
  static async create(options: CreateOptions = {}): Promise<Sandbox> {
    const client = options.client ?? shared();
    const sources = (["repo", "dir", "bundle"] as const).filter((name) => options[name] !== undefined);
    if (sources.length > 1) throw new SteadError(`${sources.join(" and ")} exclude each other`, { code: "invalid_request" });
    if (options.image !== undefined && options.agentType !== undefined) {
      throw new SteadError("an agent type has its own image: give image or agentType", { code: "invalid_request" });
    }
    const task = present({
      workspace_policy: await policy(client, options),
      env: options.env,
      network: options.network,
      prompt: options.prompt,
    });
    const body = present({
      agent_type: options.agentType ?? baseName(options.image),
      project: options.project,
      task: Object.keys(task).length === 0 ? undefined : task,
      content: options.content,
      metadata: options.metadata,
    });
    const box = new Sandbox(client, await create(client, body, options));
    await box.#ready();
    if (options.timeout !== undefined) await box.extend(options.timeout);
    return box;
  }

  /**
   * Returns a sandbox that exists.
   *
   * @example
   * const again = await Sandbox.connect(box.id);
   * again.id === box.id //=> true
   */
  static async connect(id: string, options: { client?: Client } = {}): Promise<Sandbox> {
    const client = options.client ?? shared();
    return new Sandbox(client, await client.http.json<Session>("GET", `/sessions/${segment(id)}`));
  }

  /**
   * Returns the sandboxes that match.
   *
   * @example
   * await box.setMetadata({ job: "doc-7" });
   * (await Sandbox.list({ metadata: { job: "doc-7" } })).map((found) => found.id) //=> [box.id]
   */
  static async list(options: ListOptions = {}): Promise<Sandbox[]> {
    const client = options.client ?? shared();
    const query: Query = {
      status: options.status,
      agent_type: options.agentType,
      project: options.project,
      owner: options.owner,
    };
    for (const [key, value] of Object.entries(options.metadata ?? {})) query[`metadata.${key}`] = value;
    const sessions = await client.http.pages<Session>("/sessions", query);
    return sessions.map((session) => new Sandbox(client, session));
  }

  /**
   * Closes the sandbox and removes its box and files. The journal stays. Closing it again is no error.
   *
   * @example
   * const other = await Sandbox.create();
   * await other.close();
   * ["closing", "closed"].includes((await other.refresh()).status) //=> true
   */
  async close(): Promise<void> {
    await this.client.http.request("DELETE", this.#path);
  }

  /** Closes the sandbox at the end of a block that declares it with `await using`. @internal */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Reads the session again.
   *
   * @example
   * (await box.refresh()).status //=> "active"
   */
  async refresh(): Promise<Session> {
    this.session = await this.client.http.json("GET", this.#path);
    return this.session;
  }

  /**
   * Lets the server close the sandbox `seconds` from now.
   *
   * @example
   * const session = await box.extend(3600);
   * session.expires_at > session.created_at //=> true
   */
  async extend(seconds: number): Promise<Session> {
    this.session = await this.client.http.json("PATCH", this.#path, { body: { ttl_seconds: seconds } });
    return this.session;
  }

  /**
   * Merges an object into the metadata. A value of null removes its key.
   *
   * @example
   * await box.setMetadata({ ticket: "T-1" });
   * box.session.metadata.ticket //=> "T-1"
   */
  async setMetadata(metadata: Record<string, unknown>): Promise<void> {
    this.session = await this.client.http.json("PATCH", this.#path, { body: { metadata } });
  }

  /**
   * Pauses the sandbox. `stop` ends its processes and keeps the files; `freeze` keeps both.
   *
   * @example
   * await box.pause();
   * box.session.status //=> "paused"
   * await box.resume();
   */
  async pause(mode: "stop" | "freeze" = "stop"): Promise<void> {
    this.session = await this.client.http.json("POST", `${this.#path}/pause`, { body: { mode }, patience: WAIT });
    await this.#settle("paused");
  }

  /**
   * Resumes a paused sandbox.
   *
   * @example
   * await box.pause("freeze");
   * await box.resume();
   * box.session.status //=> "active"
   */
  async resume(): Promise<void> {
    this.session = await this.client.http.json("POST", `${this.#path}/resume`, { patience: WAIT });
    await this.#settle("active");
  }

  async #settle(status: string): Promise<void> {
    if (this.session.status !== status) {
      this.session = await this.client.http.json("GET", this.#path, { query: { wait: WAIT }, patience: WAIT });
    }
    if (this.session.status !== status) {
      throw new SteadError(`the sandbox is ${this.session.status}`, { code: "session_not_active" });
    }
  }

  /** Waits for the workspace. A sandbox without one is closed, and the reason is thrown. */
  async #ready(): Promise<void> {
    for (let tries = 0; tries < 10 && !SETTLED.includes(this.session.status); tries++) {
      this.session = await this.client.http.json("GET", this.#path, { query: { wait: WAIT }, patience: WAIT });
    }
    if (this.session.status === "active" && !this.session.degraded) return;
    const notice = this.session.failure ?? this.session.warnings[0];
    await this.close();
    throw new ProvisioningFailed(`the workspace could not be made: ${notice?.message ?? `it is ${this.session.status}`}`, {
      code: notice?.code ?? "not_ready",
      hint: "`stead doctor` reports what works on the machine of the server",
    });
  }

  /**
   * Keeps the files as they are now.
   *
   * @example
   * await box.files.write("a.txt", "one");
   * const kept = await box.snapshot("before");
   * await box.files.write("a.txt", "two");
   * await box.restore(kept.id);
   * await box.files.read("a.txt") //=> "one"
   */
  snapshot(name?: string): Promise<Snapshot> {
    return this.client.http.json("POST", `${this.#path}/snapshots`, { body: present({ name }), creates: true, patience: LONG });
  }

  /**
   * Returns the snapshots.
   *
   * @example
   * const kept = await box.snapshot();
   * (await box.snapshots()).map((one) => one.id) //=> [kept.id]
   */
  snapshots(): Promise<Snapshot[]> {
    return this.client.http.pages(`${this.#path}/snapshots`);
  }

  /**
   * Restores the files of a snapshot, by its id.
   *
   * @example
   * const kept = await box.snapshot();
   * (await box.restore(kept.id)).id === kept.id //=> true
   */
  restore(snapshot: string): Promise<Restored> {
    return this.client.http.json("POST", `${this.#path}/snapshots/${segment(snapshot)}/restore`, { patience: LONG });
  }

  /**
   * Makes sandboxes that start with a copy of the files, as they are now or as they were at event `at`.
   *
   * @example
   * await box.files.write("a.txt", "shared");
   * const [first, second] = await box.fork(2);
   * await first.files.write("a.txt", "changed");
   * [await second.files.read("a.txt"), await box.files.read("a.txt")] //=> ["shared", "shared"]
   * await Promise.all([first.close(), second.close()]);
   */
  async fork(count = 1, options: { at?: number } = {}): Promise<Sandbox[]> {
    const body = present({ isolation: "full", count, at: options.at });
    const request = { body, query: { wait: WAIT }, creates: true, patience: LONG };
    const cloned = await this.client.http.json<{ items: Session[] }>("POST", `${this.#path}/clone`, request);
    const forks = cloned.items.map((session) => new Sandbox(this.client, session));
    for (const fork of forks) await fork.#ready();
    return forks;
  }

  /**
   * Returns the states that `rewind` can restore, oldest first.
   *
   * @example
   * await box.commands.run("echo 1 > a.txt");
   * (await box.checkpoints()).length > 0 //=> true
   */
  async checkpoints(): Promise<Moment[]> {
    return (await this.client.http.json<{ items: Moment[] }>("GET", `${this.#path}/rewind`)).items;
  }

  /**
   * Restores the files as they were at event `seq`. `undo` of the answer is where a second rewind leads back.
   *
   * @example
   * await box.commands.run("echo good > a.txt");
   * const good = (await box.checkpoints()).at(-1).seq;
   * await box.commands.run("rm a.txt");
   * await box.rewind(good);
   * await box.files.read("a.txt") //=> "good\n"
   */
  rewind(seq: number): Promise<Rewound> {
    return this.client.http.json("POST", `${this.#path}/rewind`, { body: { to: seq }, patience: LONG });
  }

  /**
   * Returns the call that last wrote a file.
   *
   * @example
   * await box.commands.run("echo 1 > a.txt");
   * (await box.blame("a.txt")).last.by.name.includes("echo 1 > a.txt") //=> true
   */
  blame(path: string): Promise<Blame> {
    const inside = relative(path).split("/").map(segment).join("/");
    return this.client.http.json("GET", `${this.#path}/blame/${inside}`);
  }

  /**
   * Returns the changes since the start as a patch for `git apply`. `all` includes ignored files.
   *
   * @example
   * await box.files.write("a.txt", "one\n");
   * (await box.diff()).includes("+one\n") //=> true
   */
  diff(options: { all?: boolean } = {}): Promise<string> {
    const query = { format: "patch", all: options.all || undefined };
    return this.client.http.text("GET", `${this.#path}/diff`, { query, patience: LONG });
  }

  /**
   * Returns the changed files with the patch and with what a patch cannot carry.
   *
   * @example
   * await box.files.write("a.txt", "one");
   * (await box.changes()).changed //=> ["a.txt"]
   */
  changes(options: { all?: boolean } = {}): Promise<Diff> {
    return this.client.http.json("GET", `${this.#path}/diff`, { query: { all: options.all || undefined }, patience: LONG });
  }

  /**
   * Yields the events of the journal behind `after`, and waits for new ones until the sandbox is
   * closed. It continues after a lost connection. Without `follow` it ends at the last one.
   *
   * @example
   * const types = [];
   * for await (const event of box.events({ follow: false })) types.push(event.type);
   * types[0] //=> "SessionCreated"
   */
  async *events(options: { after?: number; follow?: boolean } = {}): AsyncGenerator<Event, void, undefined> {
    const after = options.after ?? 0;
    if (options.follow === false) {
      yield* await this.client.http.pages<Event>(`${this.#path}/events`, { after: after || undefined });
      return;
    }
    for await (const sent of this.client.http.events(`${this.#path}/events`, after)) {
      const event = JSON.parse(sent.data) as Event;
      yield event;
      if (event.type === "SessionClosed") return;
    }
  }

  /**
   * Returns the state that the journal folds to, now or right after event `at`.
   *
   * @example
   * (await box.state(1)).seq //=> 1
   */
  state(at?: number): Promise<SessionFold> {
    return this.client.http.json("GET", `${this.#path}/state`, { query: { at } });
  }

  /**
   * Returns the hash of the state, or throws `VerificationFailed` if a replay of the journal gives
   * another state.
   *
   * @example
   * (await box.verify()).startsWith("blake3:") //=> true
   */
  async verify(): Promise<string> {
    const replay = await this.client.http.json<Replay>("GET", `${this.#path}/replay`, { patience: LONG });
    if (replay.difference != null) {
      const { seq, what } = replay.difference;
      throw new VerificationFailed(`the replay differs at event ${seq}: ${what}`, { code: "replay_differs" });
    }
    return replay.state_hash;
  }

  /**
   * Returns the text that tells a model about its workspace.
   *
   * @example
   * (await box.prompt()).text.includes("/workspace") //=> true
   */
  prompt(flavor: "stead" | "claude" | "codex" = "stead"): Promise<Prompt> {
    return this.client.http.json("GET", `${this.#path}/prompt`, { query: { flavor } });
  }

  /**
   * Calls a tool. A tool that ran and failed has `ok: false`; a refused call throws.
   *
   * @example
   * const answer = await box.tool("write", { path: "a.txt", content: "hello" });
   * [answer.ok, answer.result.bytes] //=> [true, 5]
   */
  tool(name: string, args: Record<string, unknown> = {}): Promise<ToolAnswer> {
    return this.client.http.json("POST", `${this.#path}/tools/${segment(name)}`, { body: args, patience: LONG });
  }

  /**
   * Returns the tools of the sandbox for a model.
   *
   * @example
   * (await box.tools("anthropic")).map((tool) => tool.name).includes("bash") //=> true
   */
  async tools(format: ToolFormat = "openai"): Promise<Record<string, unknown>[]> {
    const workspace = this.session.workspace ?? (await this.refresh()).workspace;
    const enabled: string[] = workspace?.tools ?? [];
    const tools = await this.client.tools();
    return tools.filter((tool) => enabled.includes(tool.name)).map((tool) => inFormat(tool, format));
  }

  /**
   * Carries out a tool call of a model and returns the message to send next, in the format of the
   * call: OpenAI, Anthropic or MCP. What the model did wrong goes to the model.
   *
   * @example
   * const call = { type: "tool_use", id: "t1", name: "read", input: { path: "none.txt" } };
   * const answer = await box.call(call);
   * [answer.tool_use_id, answer.is_error] //=> ["t1", true]
   */
  async call(toolCall: unknown): Promise<Record<string, unknown>> {
    const call = readCall(toolCall);
    if (call.problem !== undefined) return answerMessage(call, call.problem, false);
    try {
      const answer = await this.tool(call.name, call.arguments);
      return answerMessage(call, answerText(answer), answer.ok);
    } catch (error) {
      if (!isForTheModel(error)) throw error;
      return answerMessage(call, refusalText(error), false);
    }
  }

  /**
   * Returns a token that is good for this sandbox only.
   *
   * @example
   * (await box.token()).length > 20 //=> true
   */
  async token(expiresIn?: number): Promise<string> {
    const body = present({ expires_in: expiresIn });
    return (await this.client.http.json<{ token: string }>("POST", `${this.#path}/token`, { body })).token;
  }

  /**
   * Returns a link that opens a port of the box in a browser. It works once, within a minute. `ports`
   * has the other ways to a server in the box.
   *
   * @example
   * (await box.host(8000)).startsWith("http://8000-ses-") //=> true
   */
  host(port: number, path = "/"): Promise<string> {
    return this.ports.open(port, path);
  }

  /**
   * Returns the settings with which an MCP client uses this sandbox over HTTP.
   *
   * @example
   * const settings = await box.mcp();
   * [settings.type, settings.url.endsWith("/mcp")] //=> ["http", true]
   */
  async mcp(): Promise<{ type: "http"; url: string; headers: Record<string, string> }> {
    const [url, token] = await Promise.all([this.client.url(), this.token()]);
    return { type: "http", url: `${url}/mcp`, headers: { Authorization: `Bearer ${token}` } };
  }
}

function present<T extends Record<string, unknown>>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}

function baseName(image: string | undefined): string {
  return image === undefined ? "base" : `base-${createHash("sha256").update(image).digest("hex").slice(0, 12)}`;
}

/** Returns the files that a sandbox starts with. */
async function policy(client: Client, options: CreateOptions): Promise<unknown> {
  if (options.repo !== undefined) return { type: "git", url: options.repo, ...present({ ref: options.branch }) };
  if (options.dir === undefined && options.bundle === undefined) return undefined;
  const archive = options.dir === undefined ? await readFile(options.bundle ?? "") : await pack(options.dir, options.exclude);
  return { type: "bundle", source: { blob: await client.uploadBlob(archive) } };
}

/** Creates the session, and first the agent type `base` if the server does not have it. */
async function create(client: Client, body: { agent_type?: unknown }, options: CreateOptions): Promise<Session> {
  const request = { body, query: { wait: WAIT }, creates: true, patience: WAIT };
  try {
    return await client.http.json<Session>("POST", "/sessions", request);
  } catch (error) {
    const unknownType = error instanceof NotFound && error.parameters["resource"] === "agent_type";
    if (!unknownType || options.agentType !== undefined) throw error;
  }
  await client.ensureBase(String(body.agent_type), options.image);
  return client.http.json<Session>("POST", "/sessions", request);
}
