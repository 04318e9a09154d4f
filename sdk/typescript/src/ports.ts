/** Ports of a sandbox: servers that run in its box. */

import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { pipeline, type Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

import type { OpenedPort, Port } from "./api.gen/types.gen.js";
import { SteadError } from "./errors.js";
import { segment, type Http } from "./http.js";

const POLL_MS = 100;

export interface PortRequest {
  /** Default: `GET`. */
  method?: string;
  /** An `Authorization` header does not reach the program: use `connect` or `forward` for it. */
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  /** Seconds to wait for the answer. Default: 60. */
  timeout?: number;
}

/** A listener on 127.0.0.1. Each of its connections is a connection to the port of the box. */
export class Forward {
  readonly #server: Server;
  readonly #open: Set<Socket>;

  /** @internal */
  constructor(server: Server, open: Set<Socket>) {
    this.#server = server;
    this.#open = open;
  }

  /** The local port. */
  get port(): number {
    return (this.#server.address() as AddressInfo | null)?.port ?? 0;
  }

  /** Its URL, for programs that speak HTTP. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /**
   * Closes the listener and its connections.
   *
   * @example
   * const forward = await box.ports.forward(8000);
   * await forward.close();
   * forward.port //=> 0
   */
  async close(): Promise<void> {
    const closed = new Promise((done) => this.#server.close(done));
    for (const socket of this.#open) socket.destroy();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** `box.ports`: servers that run in the box. */
export class Ports {
  readonly #http: Http;
  readonly #path: string;

  constructor(http: Http, session: string) {
    this.#http = http;
    this.#path = `/sessions/${segment(session)}/ports`;
  }

  /**
   * Returns the ports that programs in the box listen on and that this token may open.
   *
   * @example
   * await box.ports.list() //=> []
   */
  list(): Promise<Port[]> {
    return this.#http.pages(this.#path);
  }

  /**
   * Waits until a program listens on the port. `timeout` is in seconds.
   *
   * @example
   * await box.commands.start("sleep 0.3; exec python3 -m http.server 8000 --bind 127.0.0.1");
   * await box.ports.wait(8000) //=> { port: 8000, address: "127.0.0.1" }
   */
  async wait(port: number, options: { timeout?: number } = {}): Promise<Port> {
    const seconds = options.timeout ?? 60;
    const end = performance.now() + 1000 * seconds;
    for (;;) {
      const found = (await this.list()).find((one) => one.port === port);
      if (found !== undefined) return found;
      if (performance.now() > end) {
        throw new SteadError(`nothing listens on port ${port} after ${seconds} s`, { code: "nothing_listens" });
      }
      await sleep(POLL_MS);
    }
  }

  /**
   * Returns a link that opens the port in a browser. It works once, within a minute.
   *
   * @example
   * (await box.ports.open(8000)).startsWith("http://8000-ses-") //=> true
   */
  async open(port: number, path = "/"): Promise<string> {
    return (await this.#http.json<OpenedPort>("POST", `${this.#path}/${Number(port)}:open`, { body: { path } })).url;
  }

  /**
   * Sends an HTTP request to a program in the box and returns its answer, whatever the status is. The
   * request is sent once, and redirects are not followed.
   *
   * @example
   * await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1");
   * await box.ports.wait(8000);
   * (await box.ports.request(8000, "/none?a=1")).status //=> 404
   */
  request(port: number, path = "/", options: PortRequest = {}): Promise<Response> {
    return this.#http.passOn(`${this.#path}/${Number(port)}/${path.replace(/^\/+/, "")}`, options);
  }

  /**
   * Opens a connection for any protocol over TCP. It is a stream of Node; `end` tells the program that
   * no more bytes follow.
   *
   * @example
   * await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1");
   * await box.ports.wait(8000);
   * const connection = await box.ports.connect(8000);
   * connection.write("HEAD / HTTP/1.0\r\n\r\n");
   * let text = "";
   * for await (const chunk of connection) text += chunk;
   * text.startsWith("HTTP/1.0 200 OK") //=> true
   */
  connect(port: number): Promise<Duplex> {
    return this.#http.upgrade(`${this.#path}/${Number(port)}:connect`, "tcp");
  }

  /**
   * Makes the port reachable at a port of 127.0.0.1 on this machine, until it is closed. Port 0 takes
   * a free one. Every user of this machine can connect. For browsers use `open`, which keeps the
   * cookies of the page apart.
   *
   * @example
   * await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1");
   * await box.ports.wait(8000);
   * const forward = await box.ports.forward(8000);
   * (await fetch(forward.url)).status //=> 200
   * await forward.close();
   */
  async forward(port: number, local = 0): Promise<Forward> {
    const open = new Set<Socket>();
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      open.add(socket);
      socket.on("close", () => open.delete(socket));
      socket.on("error", () => socket.destroy());
      this.connect(port).then(
        (remote) => join(socket, remote),
        // The local program sees a failure as a closed connection.
        () => socket.destroy(),
      );
    });
    await new Promise<void>((ready, failed) => {
      server.once("error", (cause) => {
        failed(new SteadError(`cannot listen on 127.0.0.1:${local}: ${cause.message}`, { code: "address_in_use", cause }));
      });
      server.listen(local, "127.0.0.1", ready);
    });
    return new Forward(server, open);
  }
}

/** Copies both directions. The end of one direction leaves the other one open. */
function join(socket: Socket, remote: Duplex): void {
  const failed = (error: Error | null | undefined) => {
    if (error == null) return;
    socket.destroy();
    remote.destroy();
  };
  // The local program may have left while the connection was opened.
  if (socket.destroyed) return void remote.destroy();
  socket.on("close", () => remote.destroy());
  remote.on("close", () => socket.destroySoon());
  pipeline(socket, remote, failed);
  pipeline(remote, socket, failed);
}
