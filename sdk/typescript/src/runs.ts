/** Runs: model requests that the server makes from versioned content, and their tool calls. */

import type { BoundAnswer, Run as RunInfo, Step } from "./api.gen/types.gen.js";
import { segment, type Http } from "./http.js";

/** A run with a fixed provider and model. */
export class Run {
  readonly id: string;
  /** The run as the server last described it. */
  info: RunInfo;
  readonly #http: Http;
  readonly #path: string;

  constructor(http: Http, session: string, info: RunInfo) {
    this.id = info.id;
    this.info = info;
    this.#http = http;
    this.#path = `/sessions/${segment(session)}/runs/${segment(info.id)}`;
  }

  /**
   * Starts the next step. `request` of the answer is the request for the model.
   *
   * @example
   * const run = await box.runs.start({ provider: "acme", model: "m1", input: "hello" });
   * const step = await run.step([], "openai");
   * [step.step, step.request.model] //=> [1, "m1"]
   */
  step(messages: Record<string, unknown>[] = [], format: "neutral" | "anthropic" | "openai" = "neutral"): Promise<Step> {
    return this.#http.json("POST", `${this.#path}/steps`, { body: { messages }, query: { format }, creates: true });
  }

  /**
   * Calls a tool that the run's catalog has.
   *
   * @example
   * const run = await box.runs.start({ provider: "acme", model: "m1", input: "hi", tool_catalog: "stead" });
   * await run.step();
   * (await run.call("write", { path: "a.txt", content: "x" })).ok //=> true
   */
  call(name: string, args: Record<string, unknown> = {}, callId?: string): Promise<BoundAnswer> {
    const body = { name, arguments: args, ...(callId === undefined ? {} : { call_id: callId }) };
    return this.#http.json("POST", `${this.#path}/tool-calls`, { body, patience: 200 });
  }

  /**
   * Ends the run as completed.
   *
   * @example
   * const run = await box.runs.start({ provider: "acme", model: "m1" });
   * (await run.complete()).status //=> "completed"
   */
  complete(): Promise<RunInfo> {
    return this.#end("complete", {});
  }

  /**
   * Ends the run as failed.
   *
   * @example
   * const run = await box.runs.start({ provider: "acme", model: "m1" });
   * (await run.fail("model_error")).status //=> "failed"
   */
  fail(code: string, detail?: string): Promise<RunInfo> {
    return this.#end("fail", { code, ...(detail === undefined ? {} : { detail }) });
  }

  /**
   * Ends the run as cancelled.
   *
   * @example
   * const run = await box.runs.start({ provider: "acme", model: "m1" });
   * (await run.cancel()).status //=> "cancelled"
   */
  cancel(): Promise<RunInfo> {
    return this.#end("cancel", {});
  }

  async #end(how: string, body: Record<string, unknown>): Promise<RunInfo> {
    this.info = await this.#http.json("POST", `${this.#path}/${how}`, { body });
    return this.info;
  }
}

/** `box.runs`: units of agent work with a provider and a model. */
export class Runs {
  readonly #http: Http;
  readonly #session: string;
  readonly #path: string;

  constructor(http: Http, session: string) {
    this.#http = http;
    this.#session = session;
    this.#path = `/sessions/${segment(session)}/runs`;
  }

  /**
   * Starts a run, with the fields of a run request.
   *
   * @example
   * const run = await box.runs.start({ provider: "acme", model: "m1", input: "hello" });
   * run.info.model //=> "m1"
   */
  async start(request: Record<string, unknown>): Promise<Run> {
    const info = await this.#http.json<RunInfo>("POST", this.#path, { body: request, creates: true });
    return new Run(this.#http, this.#session, info);
  }

  /**
   * Returns the runs of the sandbox.
   *
   * @example
   * await box.runs.start({ provider: "acme", model: "m1" });
   * (await box.runs.list()).map((run) => run.model) //=> ["m1"]
   */
  list(): Promise<RunInfo[]> {
    return this.#http.pages(this.#path);
  }
}
