/** Secrets and kept setup results: what belongs to a project or to the server. */

import type { Secret, SetupResult } from "./api.gen/types.gen.js";
import { segment, type Http } from "./http.js";

export interface SecretOptions {
  /** Hosts that may receive the secret, as `host` or `host:port`. */
  hosts: string[];
  /** Agent types whose sandboxes may use it; `*` for every one. Default: none. */
  agentTypes?: string[];
  /** Request header that carries it. Default: `authorization`. */
  header?: string;
  /** Text of the header, with `{}` in the place of the value. Default: `Bearer {}`. */
  as?: string;
  /** Also send it to services over plain HTTP. */
  overHttp?: boolean;
  /** The owner. Default: the project of the token, or the platform. */
  project?: string;
}

/** `client.secrets`: values that sandboxes may use and may not see. */
export class Secrets {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /**
   * Stores a secret, or replaces it. The server never shows the value again.
   *
   * @example
   * const secret = await client.secrets.set("model-api", "sk-example", { hosts: ["api.example.com"], agentTypes: ["*"] });
   * [secret.hosts, "value" in secret] //=> [["api.example.com"], false]
   * const made = await Sandbox.create({ env: { API_KEY: { secret: "model-api" } } });
   * (await made.commands.run("echo $API_KEY")).stdout.startsWith("stead-ph-") //=> true
   * await made.close();
   */
  set(name: string, value: string, options: SecretOptions): Promise<Secret> {
    const { hosts, agentTypes, header, as, overHttp, project } = options;
    const body = { value, hosts, agent_types: agentTypes, header, as, over_http: overHttp };
    return this.#http.json("PUT", `/secrets/${segment(name)}`, { body, query: { project } });
  }

  /**
   * Returns the secrets without their values.
   *
   * @example
   * await client.secrets.set("listed", "sk-example", { hosts: ["api.example.com"] });
   * (await client.secrets.list()).some((secret) => secret.name === "listed") //=> true
   */
  list(options: { project?: string } = {}): Promise<Secret[]> {
    return this.#http.pages("/secrets", { project: options.project });
  }

  /**
   * Returns a secret without its value.
   *
   * @example
   * await client.secrets.set("known", "sk-example", { hosts: ["api.example.com"] });
   * (await client.secrets.get("known")).usable //=> true
   */
  get(name: string, options: { project?: string } = {}): Promise<Secret> {
    return this.#http.json("GET", `/secrets/${segment(name)}`, { query: { project: options.project } });
  }

  /**
   * Removes a secret.
   *
   * @example
   * await client.secrets.set("short-lived", "sk-example", { hosts: ["api.example.com"] });
   * await client.secrets.remove("short-lived");
   * (await client.secrets.list()).some((secret) => secret.name === "short-lived") //=> false
   */
  async remove(name: string, options: { project?: string } = {}): Promise<void> {
    await this.#http.request("DELETE", `/secrets/${segment(name)}`, { query: { project: options.project } });
  }
}

/** `client.setupResults`: files that setup commands wrote, kept for agent types with `setup_cache`. */
export class SetupResults {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /**
   * Returns the kept results, the most recently used first.
   *
   * @example
   * const workspace = { enabled: true, workspace_policy: "empty", setup_commands: ["date > built.txt"], setup_cache: true };
   * await client.request("POST", "/agent-types", { id: "builder", workspace });
   * const made = await Sandbox.create({ agentType: "builder" });
   * (await client.setupResults.list())[0].commands //=> ["date > built.txt"]
   * await made.close();
   */
  list(): Promise<SetupResult[]> {
    return this.#http.pages("/setup-results");
  }

  /**
   * Removes a result. Its files stay while a sandbox uses them.
   *
   * @example
   * for (const result of await client.setupResults.list()) await client.setupResults.remove(result.id);
   * await client.setupResults.list() //=> []
   */
  async remove(id: string): Promise<void> {
    await this.#http.request("DELETE", `/setup-results/${segment(id)}`);
  }
}
