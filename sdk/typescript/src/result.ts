/** Results and output of commands. */

import type { Exec } from "./api.gen/types.gen.js";
import { CommandFailed } from "./errors.js";

/** The end of a command. */
export interface CommandResult {
  id: string;
  exitCode: number;
  stdout: string;
  stderr: string;
  /** Sequence number of its end in the journal, for `rewind`; null if the server does not report it. */
  seq: number | null;
  /** True if a part of the output is missing. */
  truncated: boolean;
  timedOut: boolean;
  killed: boolean;
  oom: boolean;
  signal: number | null;
  durationMs: number;
}

/** Bytes that a command wrote. `seq` counts from 1. */
export interface OutputChunk {
  seq: number;
  stream: "stdout" | "stderr";
  data: Uint8Array;
  text: string;
}

export interface WireChunk {
  seq: number;
  stream: "stdout" | "stderr";
  encoding: string;
  data: string;
}

export function decodeChunk(chunk: WireChunk): OutputChunk {
  const data = Buffer.from(chunk.data, chunk.encoding === "base64" ? "base64" : "utf8");
  return { seq: chunk.seq, stream: chunk.stream, data, text: data.toString("utf8") };
}

/** Returns the result of an exec that ended, with the output of a stream in place of its own. */
export function resultOf(exec: Exec, output?: { stdout: string; stderr: string; truncated: boolean }): CommandResult {
  if (exec.exit_code == null) {
    const message = exec.error?.message ?? `the command is ${exec.status}`;
    throw new CommandFailed(message, exec.error?.code ?? exec.status);
  }
  return {
    id: exec.id,
    exitCode: exec.exit_code,
    stdout: output?.stdout ?? exec.stdout ?? "",
    stderr: output?.stderr ?? exec.stderr ?? "",
    seq: (exec as { seq?: number | null }).seq ?? null,
    truncated: output?.truncated ?? exec.truncated,
    timedOut: exec.timed_out,
    killed: exec.killed,
    oom: exec.oom,
    signal: exec.signal ?? null,
    durationMs: exec.duration_ms ?? 0,
  };
}

/** Throws {@link CommandFailed} if the exit code is not 0. */
export function checked(result: CommandResult): CommandResult {
  if (result.exitCode === 0) return result;
  const why = result.timedOut ? "timed out" : `ended with exit code ${result.exitCode}`;
  const last = (result.stderr.trim() || result.stdout.trim()).slice(-2000);
  const message = `the command ${why}${last === "" ? "" : `: ${last}`}`;
  throw new CommandFailed(message, result.timedOut ? "timed_out" : "exit_code", result);
}

/** The text of one stream. A chunk may end inside a character or a line. */
export class StreamText {
  readonly #decoder = new TextDecoder();
  readonly #parts: string[] = [];
  #line = "";

  /** Returns the lines that are complete now, without their line ends. */
  add(data: Uint8Array): string[] {
    return this.#take(this.#decoder.decode(data, { stream: true }));
  }

  /** Returns the last line if it has no line end. */
  end(): string[] {
    const lines = this.#take(this.#decoder.decode());
    const last = this.#line;
    this.#line = "";
    return last === "" ? lines : [...lines, last];
  }

  text(): string {
    return this.#parts.join("");
  }

  #take(text: string): string[] {
    this.#parts.push(text);
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop() ?? "";
    return lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  }
}
