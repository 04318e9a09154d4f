/** Commands in the box of a sandbox. */

import type { Exec } from "./api.gen/types.gen.js";
import { CommandFailed, SteadError } from "./errors.js";
import { segment, type Http } from "./http.js";
import { checked, decodeChunk, resultOf, StreamText, type CommandResult, type OutputChunk, type WireChunk } from "./result.js";

/** The largest standard input that fits into the request that starts a command. */
const STDIN_IN_REQUEST = 1 << 20;
const STDIN_PIECE = 1 << 18;
/** Seconds that one request waits for the end of a command. `fetch` of Node gives up after 300. */
const WAIT = 60;
const LONGEST_REQUEST = 200;
/** Seconds after which a command is killed if the caller sets no time. */
const DEFAULT_TIMEOUT = 120;

export type LineCallback = (line: string) => unknown;

/** A text, or the placeholder of a secret. */
export type EnvValue = string | { secret: string };

export interface CommandOptions {
  cwd?: string;
  env?: Record<string, EnvValue>;
  /** Seconds after which every process of the command is killed. */
  timeout?: number;
}

export interface RunOptions extends CommandOptions {
  stdin?: string | Uint8Array;
  /** Gets each line while the command runs, without its line end. */
  onStdout?: LineCallback;
  onStderr?: LineCallback;
  /** Throws {@link CommandFailed} if the exit code is not 0. */
  check?: boolean;
}

function order(command: string | string[], options: CommandOptions): Record<string, unknown> {
  return {
    ...(typeof command === "string" ? { command } : { argv: command }),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.timeout === undefined ? {} : { timeout_seconds: Math.max(1, Math.round(options.timeout)) }),
  };
}

/** A command that runs in the background. It continues if this process ends; `connect` finds it. */
export class Command {
  readonly id: string;
  readonly #http: Http;
  readonly #path: string;

  constructor(http: Http, session: string, id: string) {
    this.id = id;
    this.#http = http;
    this.#path = `/sessions/${segment(session)}/execs/${segment(id)}`;
  }

  /**
   * Returns the exec: status, exit code, command line.
   *
   * @example
   * const command = await box.commands.start("sleep 60");
   * (await command.info()).status //=> "running"
   */
  info(): Promise<Exec> {
    return this.#http.json("GET", this.#path);
  }

  /**
   * Yields the output from a chunk on until the command ends, also after a lost connection.
   *
   * @example
   * const command = await box.commands.start("echo one");
   * const texts = [];
   * for await (const chunk of command.output()) texts.push(chunk.text);
   * texts.join("") //=> "one\n"
   */
  async *output(after = 0): AsyncGenerator<OutputChunk, void, undefined> {
    for await (const event of this.#http.events(`${this.#path}/stream`, after)) {
      if (event.event === "output") yield decodeChunk(JSON.parse(event.data) as WireChunk);
      else if (event.event === "finished") return;
    }
  }

  /**
   * Waits for the end of the command. The callbacks get each line, without its line end.
   *
   * @example
   * const lines = [];
   * const command = await box.commands.start("echo one; echo two");
   * const result = await command.wait({ onStdout: (line) => lines.push(line) });
   * [result.exitCode, lines] //=> [0, ["one", "two"]]
   */
  async wait(callbacks: { onStdout?: LineCallback; onStderr?: LineCallback } = {}): Promise<CommandResult> {
    if (callbacks.onStdout === undefined && callbacks.onStderr === undefined) {
      for (;;) {
        const exec = await this.#http.json<Exec>("GET", this.#path, { query: { wait: WAIT }, patience: WAIT });
        if (exec.status !== "running") return wholeResult(this.#http, this.#path, exec);
      }
    }
    const texts = { stdout: new StreamText(), stderr: new StreamText() };
    const listeners = { stdout: callbacks.onStdout, stderr: callbacks.onStderr };
    const tell = async (stream: "stdout" | "stderr", lines: string[]): Promise<void> => {
      for (const line of lines) await listeners[stream]?.(line);
    };
    let truncated = false;
    for await (const event of this.#http.events(`${this.#path}/stream`, 0)) {
      if (event.event === "output") {
        const chunk = decodeChunk(JSON.parse(event.data) as WireChunk);
        await tell(chunk.stream, texts[chunk.stream].add(chunk.data));
      } else if (event.event === "missed") {
        truncated = true;
      } else if (event.event === "finished") {
        await tell("stdout", texts.stdout.end());
        await tell("stderr", texts.stderr.end());
        const output = { stdout: texts.stdout.text(), stderr: texts.stderr.text(), truncated };
        return resultOf(JSON.parse(event.data) as Exec, output);
      }
    }
    throw new CommandFailed("the output ended before the command", "stream_lost");
  }

  /**
   * Writes to the standard input of the command.
   *
   * @example
   * const command = await box.commands.start("read name; echo hello $name");
   * await command.write("Ada\n");
   * (await command.wait()).stdout //=> "hello Ada\n"
   */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(data);
    for (let start = 0; start < bytes.length; start += STDIN_PIECE) {
      const piece = bytes.subarray(start, start + STDIN_PIECE).toString("base64");
      await this.#http.request("POST", `${this.#path}/stdin`, { body: { data: piece, encoding: "base64" } });
    }
  }

  /**
   * Ends the standard input of the command.
   *
   * @example
   * const command = await box.commands.start("cat");
   * await command.write("all of it");
   * await command.closeStdin();
   * (await command.wait()).stdout //=> "all of it"
   */
  async closeStdin(): Promise<void> {
    await this.#http.request("POST", `${this.#path}/stdin`, { body: { close: true } });
  }

  /**
   * Sends a signal, by name or number, to the process group of the command.
   *
   * @example
   * const command = await box.commands.start("sleep 60");
   * await command.signal("TERM");
   * (await command.wait()).signal //=> 15
   */
  async signal(signal: string | number): Promise<void> {
    await this.#http.request("POST", `${this.#path}/signal`, { body: { signal } });
  }

  /**
   * Kills every process of the command, including those it left behind.
   *
   * @example
   * const command = await box.commands.start("sleep 60");
   * await command.kill();
   * (await command.wait()).killed //=> true
   */
  async kill(): Promise<void> {
    await this.#http.request("DELETE", this.#path);
  }

  /**
   * Resizes the terminal of a command that has one.
   *
   * @example
   * const shell = await box.commands.pty("bash --norc", { rows: 24, columns: 80 });
   * await shell.resize(40, 120);
   * await shell.write("stty size; exit\n");
   * (await shell.wait()).stdout.includes("40 120") //=> true
   */
  async resize(rows: number, columns: number): Promise<void> {
    await this.#http.request("POST", `${this.#path}/resize`, { body: { rows, columns } });
  }
}

/** `box.commands`: runs commands in the box. */
export class Commands {
  readonly #http: Http;
  readonly #session: string;
  readonly #path: string;

  constructor(http: Http, session: string) {
    this.#http = http;
    this.#session = session;
    this.#path = `/sessions/${segment(session)}/execs`;
  }

  /**
   * Runs a command to its end. A text runs in bash, an array runs without a shell. If a callback
   * throws, the command is killed. After `timeout` seconds (120 if not given) it is killed too.
   *
   * @example
   * const result = await box.commands.run("echo out; echo err >&2; exit 3");
   * [result.exitCode, result.stdout, result.stderr] //=> [3, "out\n", "err\n"]
   */
  async run(command: string | string[], options: RunOptions = {}): Promise<CommandResult> {
    const { stdin, onStdout, onStderr } = options;
    const timeout = options.timeout ?? DEFAULT_TIMEOUT;
    const inRequest = stdin === undefined || (typeof stdin === "string" && Buffer.byteLength(stdin) <= STDIN_IN_REQUEST);
    let result: CommandResult;
    if (inRequest && onStdout === undefined && onStderr === undefined && timeout <= LONGEST_REQUEST) {
      const body = { ...order(command, options), ...(stdin === undefined ? {} : { stdin }) };
      const exec = await this.#http.json<Exec>("POST", this.#path, { body, creates: true, patience: timeout });
      result = await wholeResult(this.#http, `${this.#path}/${segment(exec.id)}`, exec);
    } else {
      const body = { timeout_seconds: timeout, ...order(command, options), unread: "wait", stdin: stdin !== undefined };
      const started = await this.#start(body);
      try {
        result = await fed(started, stdin, { onStdout: onStdout ?? (() => undefined), ...(onStderr && { onStderr }) });
      } catch (error) {
        // A callback failed: nobody reads the output any more.
        await started.kill().catch(() => undefined);
        throw error;
      }
    }
    return options.check ? checked(result) : result;
  }

  /**
   * Starts a command in the background, with an open standard input and without a time limit.
   *
   * @example
   * const server = await box.commands.start("sleep 60");
   * (await box.commands.run("true")).exitCode //=> 0
   * await server.kill();
   */
  start(command: string | string[], options: CommandOptions = {}): Promise<Command> {
    return this.#start({ ...order(command, options), stdin: true });
  }

  /**
   * Starts a command with a terminal.
   *
   * @example
   * const shell = await box.commands.pty("bash --norc");
   * await shell.write("tty; exit\n");
   * (await shell.wait()).stdout.includes("/dev/pts/") //=> true
   */
  pty(command: string | string[] = "bash", options: CommandOptions & { rows?: number; columns?: number } = {}): Promise<Command> {
    const pty = { rows: options.rows ?? 24, columns: options.columns ?? 80 };
    return this.#start({ ...order(command, options), pty });
  }

  /**
   * Returns a handle for a command that was started earlier or by another process.
   *
   * @example
   * const started = await box.commands.start("echo still here");
   * (await box.commands.connect(started.id).wait()).stdout //=> "still here\n"
   */
  connect(id: string): Command {
    return new Command(this.#http, this.#session, id);
  }

  /**
   * Returns the running commands and the latest ended ones, oldest first.
   *
   * @example
   * const started = await box.commands.start("sleep 60");
   * (await box.commands.list()).map((one) => one.id) //=> [started.id]
   */
  list(): Promise<Exec[]> {
    return this.#http.pages(this.#path);
  }

  async #start(body: Record<string, unknown>): Promise<Command> {
    const exec = await this.#http.json<Exec>("POST", this.#path, { body: { ...body, background: true }, creates: true });
    if (exec.status === "failed") resultOf(exec); // throws the reason
    return this.connect(exec.id);
  }
}

/** Writes the standard input while the output is read: either may block on the other. */
async function fed(
  command: Command,
  stdin: string | Uint8Array | undefined,
  callbacks: { onStdout?: LineCallback; onStderr?: LineCallback },
): Promise<CommandResult> {
  if (stdin === undefined) return command.wait(callbacks);
  const feeding = command
    .write(stdin)
    .then(() => command.closeStdin())
    .catch((error: unknown) => {
      // The command ended without reading all of it.
      if (!(error instanceof SteadError) || error.status === undefined || error.status >= 500) throw error;
    });
  const [result] = await Promise.all([command.wait(callbacks), feeding]);
  return result;
}

/** Returns the result with the output that the box still has, if the journal has only a part. */
async function wholeResult(http: Http, path: string, exec: Exec): Promise<CommandResult> {
  if (!exec.truncated) return resultOf(exec);
  const texts = { stdout: new StreamText(), stderr: new StreamText() };
  let after = 0;
  for (;;) {
    type Page = { missed?: unknown; chunks: WireChunk[]; after: number; more: boolean };
    const page = await http.json<Page>("GET", `${path}/output`, { query: { after: after || undefined } });
    if (page.missed) return resultOf(exec);
    for (const chunk of page.chunks) texts[chunk.stream].add(decodeChunk(chunk).data);
    after = page.after;
    if (!page.more) break;
  }
  texts.stdout.end();
  texts.stderr.end();
  return resultOf(exec, { stdout: texts.stdout.text(), stderr: texts.stderr.text(), truncated: false });
}
