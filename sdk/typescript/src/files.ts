/** Files of a sandbox. */

import { readFile, stat, writeFile } from "node:fs/promises";
import { basename } from "node:path";

import type { FileEntry, Placed, ToolAnswer } from "./api.gen/types.gen.js";
import { pack, unpack } from "./archive.js";
import { NotFound, SteadError } from "./errors.js";
import { segment, type Http, type Query } from "./http.js";

const ROOT = "/workspace";
const RAW = { "Content-Type": "application/octet-stream" };

/** Returns the path below the workspace. `/workspace/a`, `/a` and `a` name the same file. */
export function relative(path: string): string {
  const below = path === ROOT || path.startsWith(`${ROOT}/`) ? path.slice(ROOT.length) : path;
  return below
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");
}

/** `box.files`: reads and writes files of the workspace. Paths start at its root. */
export class Files {
  readonly #http: Http;
  readonly #session: string;

  constructor(http: Http, session: string) {
    this.#http = http;
    this.#session = `/sessions/${segment(session)}`;
  }

  /**
   * Returns the text of a file.
   *
   * @example
   * await box.files.write("greeting.txt", "hello");
   * await box.files.read("greeting.txt") //=> "hello"
   */
  async read(path: string): Promise<string> {
    return Buffer.from(await this.readBytes(path)).toString("utf8");
  }

  /**
   * Returns the bytes of a file.
   *
   * @example
   * await box.files.write("data.bin", new Uint8Array([0, 255]));
   * [...(await box.files.readBytes("data.bin"))] //=> [0, 255]
   */
  async readBytes(path: string): Promise<Uint8Array<ArrayBuffer>> {
    const response = await this.#http.request("GET", this.#path(path), { patience: 200 });
    if (!response.headers.has("etag") && response.headers.get("content-type")?.startsWith("application/json")) {
      throw new SteadError(`${path} is a directory`, { code: "is_a_directory", hint: "use list() or download()" });
    }
    return new Uint8Array(await response.arrayBuffer());
  }

  /**
   * Writes a file and makes its missing parent directories. With `ifMatch`, the write fails with
   * `Conflict` unless the file still has this hash.
   *
   * @example
   * const written = await box.files.write("notes/a.txt", "one");
   * written.bytes //=> 3
   * await box.files.write("notes/a.txt", "two", { ifMatch: written.hash });
   */
  write(path: string, data: string | Uint8Array, options: { ifMatch?: string } = {}): Promise<Placed> {
    const headers = options.ifMatch === undefined ? RAW : { ...RAW, "If-Match": `"${options.ifMatch}"` };
    const content = typeof data === "string" ? data : new Uint8Array(data);
    return this.#put(path, content, { mkdir: 1 }, headers);
  }

  /**
   * Returns the entries of a directory.
   *
   * @example
   * await box.files.write("src/a.py", "");
   * (await box.files.list("src")).map((entry) => entry.path) //=> ["src/a.py"]
   */
  async list(path = ""): Promise<FileEntry[]> {
    const headers = { Accept: "application/json" };
    const listing = await this.#http.json<{ entries?: FileEntry[] }>("GET", this.#path(path), { headers });
    if (listing.entries === undefined) throw new SteadError(`${path} is not a directory`, { code: "not_a_directory" });
    return listing.entries;
  }

  /**
   * Returns kind, size and modification time of a file or directory.
   *
   * @example
   * await box.files.write("a.txt", "12345");
   * (await box.files.stat("a.txt")).size //=> 5
   */
  async stat(path: string): Promise<FileEntry> {
    return (await this.#tool("stat", { path: relative(path) || "." })) as FileEntry;
  }

  /**
   * Returns true if there is a file or directory.
   *
   * @example
   * await box.files.exists("nothing-here") //=> false
   */
  async exists(path: string): Promise<boolean> {
    try {
      await this.#http.request("HEAD", this.#path(path));
      return true;
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
      // The answer to HEAD has no body, so a closed sandbox is told apart by a second request.
      await this.#http.request("GET", this.#session);
      return false;
    }
  }

  /**
   * Makes a directory and its missing parents.
   *
   * @example
   * await box.files.mkdir("a/b/c");
   * (await box.files.stat("a/b/c")).kind //=> "directory"
   */
  async mkdir(path: string): Promise<void> {
    await this.#put(path, "", { format: "directory" });
  }

  /**
   * Moves a file or directory.
   *
   * @example
   * await box.files.write("old.txt", "x");
   * await box.files.move("old.txt", "new.txt");
   * [await box.files.exists("old.txt"), await box.files.exists("new.txt")] //=> [false, true]
   */
  async move(source: string, destination: string): Promise<void> {
    await this.#tool("move", { source: relative(source), destination: relative(destination) });
  }

  /**
   * Copies a file or directory.
   *
   * @example
   * await box.files.write("one.txt", "x");
   * await box.files.copy("one.txt", "two.txt");
   * await box.files.read("two.txt") //=> "x"
   */
  async copy(source: string, destination: string): Promise<void> {
    await this.#tool("copy", { source: relative(source), destination: relative(destination) });
  }

  /**
   * Removes a file, or a directory with everything in it.
   *
   * @example
   * await box.files.write("old/a.txt", "x");
   * await box.files.remove("old");
   * await box.files.exists("old/a.txt") //=> false
   */
  async remove(path: string): Promise<void> {
    await this.#http.request("DELETE", this.#path(path));
  }

  /**
   * Uploads a file, or the files of a directory without the names in `exclude`.
   *
   * @example
   * await fs.mkdir(`${tmp}/project`);
   * await fs.writeFile(`${tmp}/project/main.sh`, "echo hi");
   * await box.files.upload(`${tmp}/project`, "app", { exclude: ["node_modules"] });
   * (await box.commands.run("sh app/main.sh")).stdout //=> "hi\n"
   */
  async upload(local: string, path = "", options: { exclude?: string[] } = {}): Promise<void> {
    if (!(await stat(local)).isDirectory()) {
      const target = relative(path) === "" || path.endsWith("/") ? `${path}/${basename(local)}` : path;
      await this.write(target, await readFile(local));
      return;
    }
    if (relative(path) !== "") await this.mkdir(path);
    await this.#put(path, await pack(local, options.exclude), { format: "tar" });
  }

  /**
   * Downloads a file, or the files of a directory. No file is written outside of `local`.
   *
   * @example
   * await box.files.write("out/report.txt", "done");
   * await box.files.download("out", `${tmp}/out`);
   * await fs.readFile(`${tmp}/out/report.txt`, "utf8") //=> "done"
   */
  async download(path: string, local: string): Promise<void> {
    const isDirectory = relative(path) === "" || (await this.stat(path)).kind === "directory";
    if (!isDirectory) {
      await writeFile(local, await this.readBytes(path));
      return;
    }
    await unpack(await this.#http.bytes("GET", this.#path(path), { query: { format: "tar" }, patience: 200 }), local);
  }

  #path(path: string): string {
    const inside = relative(path);
    return `${this.#session}/files${inside === "" ? "" : `/${inside.split("/").map(segment).join("/")}`}`;
  }

  #put(path: string, content: string | Uint8Array<ArrayBuffer>, query: Query, headers: Record<string, string> = RAW): Promise<Placed> {
    return this.#http.json("PUT", this.#path(path), { content, query, headers, patience: 200 });
  }

  async #tool(name: string, body: unknown): Promise<unknown> {
    const answer = await this.#http.json<ToolAnswer>("POST", `${this.#session}/tools/${name}`, { body });
    if (answer.ok) return answer.result;
    const { code = "failed", message = answer.message, hint } = answer.error ?? {};
    const kind = code === "not_found" ? NotFound : SteadError;
    throw new kind(message, { code, ...(hint == null ? {} : { hint }) });
  }
}
