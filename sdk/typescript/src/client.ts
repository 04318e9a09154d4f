/** A connection to a server, and what belongs to the server and not to one sandbox. */

import type { AgentType, Blob, Tool, Whoami } from "./api.gen/types.gen.js";
import { Conflict } from "./errors.js";
import { Http, type RequestOptions } from "./http.js";
import { Secrets, SetupResults } from "./secrets.js";

export interface ClientOptions {
  /** URL of the server. Default: `STEAD_URL`, else the server that runs on this machine's home. */
  url?: string;
  /** Default: `STEAD_TOKEN`, else the token of the home, which goes to a loopback address only. */
  token?: string;
  /** How often a request that is safe to repeat is sent again. */
  retries?: number;
}

/** A connection to a Stead server. */
export class Client {
  /** @internal */
  readonly http: Http;
  readonly secrets: Secrets;
  readonly setupResults: SetupResults;

  constructor(options: ClientOptions = {}) {
    this.http = new Http(options.url, options.token, options.retries ?? 5);
    this.secrets = new Secrets(this.http);
    this.setupResults = new SetupResults(this.http);
  }

  /**
   * Returns the URL of the server.
   *
   * @example
   * (await client.url()).startsWith("http://127.0.0.1:") //=> true
   */
  async url(): Promise<string> {
    return (await this.http.endpoint()).url;
  }

  /**
   * Returns the role and the permissions of the token.
   *
   * @example
   * (await client.whoami()).role //=> "admin"
   */
  whoami(): Promise<Whoami> {
    return this.http.json("GET", "/whoami");
  }

  /**
   * Returns every tool of the server with its parameters.
   *
   * @example
   * (await client.tools()).some((tool) => tool.name === "bash") //=> true
   */
  tools(): Promise<Tool[]> {
    return this.http.pages("/tools");
  }

  /**
   * Stores bytes and returns their hash.
   *
   * @example
   * (await client.uploadBlob(new Uint8Array([1, 2]))).startsWith("sha256:") //=> true
   */
  async uploadBlob(data: Uint8Array): Promise<string> {
    const headers = { "Content-Type": "application/octet-stream" };
    const content = new Uint8Array(data);
    return (await this.http.json<Blob>("POST", "/blobs", { content, headers, patience: 200 })).digest;
  }

  /**
   * Sends any request of the HTTP API and returns the JSON of the answer.
   *
   * @example
   * const providers = await client.request("GET", "/providers");
   * providers.items.some((one) => one.name === "native") //=> true
   */
  request<T = unknown>(method: string, path: string, body?: unknown, query: RequestOptions["query"] = {}): Promise<T> {
    return this.http.json<T>(method, path, { body, query, creates: method === "POST" });
  }

  /** Declares the agent type of sandboxes that name none, if the server does not have it. @internal */
  async ensureBase(id: string, image: string | undefined): Promise<void> {
    const workspace = {
      enabled: true,
      workspace_policy: "empty",
      repo_source: { type: "none" },
      require_workspace: true,
      rewind: { points: "layers" },
      ...(image === undefined ? {} : { base_image: image }),
    };
    const description =
      image === undefined ? "An empty workspace with every tool and with checkpoints." : `As \`base\`, from the image ${image}.`;
    try {
      await this.http.json<AgentType>("POST", "/agent-types", { body: { id, description, workspace }, creates: true });
    } catch (error) {
      if (!(error instanceof Conflict)) throw error; // another client was faster
    }
  }
}

let common: Client | undefined;

/** Returns the client of sandboxes that were made without one. */
export function shared(): Client {
  common ??= new Client();
  return common;
}
