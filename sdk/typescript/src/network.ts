/** The network of a sandbox. */

import type { NetworkReport, NetworkRule, Session } from "./api.gen/types.gen.js";
import { segment, type Http } from "./http.js";

/** `box.network`: the hosts that the sandbox can reach, and those that it contacted. */
export class Network {
  readonly #http: Http;
  readonly #path: string;

  constructor(http: Http, session: string) {
    this.#http = http;
    this.#path = `/sessions/${segment(session)}`;
  }

  /**
   * Returns what the sandbox can reach, the hosts that it used with their bytes, and refused
   * connections, each with the rule that would allow it.
   *
   * @example
   * (await box.network.report()).used //=> []
   */
  report(): Promise<NetworkReport> {
    return this.#http.json("GET", `${this.#path}/network`);
  }

  /**
   * Allows hosts for a time in seconds. The platform, the project and the task have to allow them too.
   * Needs the token of an administrator.
   *
   * @example
   * const fetcher = await Sandbox.create({ agentType: "fetcher" });
   * const session = await fetcher.network.grant(["new.example.com"], 600);
   * session.workspace.network.grants.map((grant) => grant.host) //=> ["new.example.com"]
   * await fetcher.close();
   */
  grant(allow: NetworkRule[], seconds: number, options: { phase?: "setup" | "agent" } = {}): Promise<Session> {
    const body = { allow, ttl_seconds: seconds, ...options };
    return this.#http.json("POST", `${this.#path}/network:grant`, { body });
  }

  /**
   * Takes hosts away until the sandbox is closed, and ends open connections to them.
   *
   * @example
   * const fetcher = await Sandbox.create({ agentType: "fetcher" });
   * await fetcher.network.narrow(["api.example.com"]);
   * (await fetcher.network.report()).reachable //=> []
   * await fetcher.close();
   */
  narrow(deny: NetworkRule[]): Promise<Session> {
    return this.#http.json("POST", `${this.#path}/network:narrow`, { body: { deny } });
  }
}
