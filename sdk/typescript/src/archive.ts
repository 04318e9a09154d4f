/** Archives of directories. An archive from a sandbox is hostile. */

import { lstat, mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { SteadError } from "./errors.js";

const BLOCK = 512;
/** Longest path of the plain format; longer ones need an extended header. */
const SHORT = 100;

/** Returns the files of a directory as a tar. `exclude` has names that are left out. */
export async function pack(directory: string, exclude: string[] = []): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Buffer[] = [];
  const add = async (path: string): Promise<void> => {
    for (const name of (await readdir(join(directory, path))).sort()) {
      if (exclude.includes(name)) continue;
      const inside = path === "" ? name : `${path}/${name}`;
      const status = await lstat(join(directory, inside));
      if (status.isDirectory()) {
        parts.push(...entry(`${inside}/`, "5", 0o755, Buffer.alloc(0)));
        await add(inside);
      } else if (status.isSymbolicLink()) {
        parts.push(...entry(inside, "2", 0o777, Buffer.alloc(0), await readlink(join(directory, inside))));
      } else if (status.isFile()) {
        parts.push(...entry(inside, "0", status.mode & 0o100 ? 0o755 : 0o644, await readFile(join(directory, inside))));
      }
    }
  };
  await add("");
  return new Uint8Array(Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]));
}

function entry(path: string, kind: string, mode: number, content: Buffer, link = ""): Buffer[] {
  const extended: Buffer[] = [];
  const records: string[] = [];
  if (Buffer.byteLength(path) > SHORT) records.push(record("path", path));
  if (Buffer.byteLength(link) > SHORT) records.push(record("linkpath", link));
  if (records.length > 0) {
    const data = Buffer.from(records.join(""));
    extended.push(header("PaxHeader", "x", 0o644, data.length, ""), data, padding(data.length));
  }
  return [...extended, header(path, kind, mode, content.length, link), content, padding(content.length)];
}

/** A record of an extended header starts with its own length. */
function record(name: string, value: string): string {
  const rest = ` ${name}=${value}\n`;
  let length = Buffer.byteLength(rest);
  length += String(length + String(length).length).length;
  return `${length}${rest}`;
}

function header(path: string, kind: string, mode: number, size: number, link: string): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number): void => {
    block.write(value.toString(8).padStart(length - 1, "0"), at);
  };
  Buffer.from(path).copy(block, 0, 0, SHORT);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.fill(" ", 148, 156);
  block.write(kind, 156);
  Buffer.from(link).copy(block, 157, 0, SHORT);
  block.write("ustar\u000000", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\u0000 `, 148);
  return block;
}

function padding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

/** Unpacks a tar. A path with `..`, an absolute path and a link that leads out are refused. */
export async function unpack(archive: Uint8Array, directory: string): Promise<void> {
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength);
  const links: [string, string][] = [];
  let named: { path?: string; linkpath?: string } = {};
  await mkdir(directory, { recursive: true });
  for (let at = 0; at + BLOCK <= bytes.length && bytes[at] !== 0; ) {
    const block = bytes.subarray(at, at + BLOCK);
    const field = (from: number, length: number): string => text(block.subarray(from, from + length));
    const size = parseInt(field(124, 12).trim() || "0", 8);
    const kind = field(156, 1) || "0";
    if (!(size >= 0) || at + BLOCK + size > bytes.length) throw refusedArchive("it ends inside a file");
    const content = bytes.subarray(at + BLOCK, at + BLOCK + size);
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    if (kind === "x" || kind === "g") {
      if (kind === "x") named = records(content);
      continue;
    }
    if (kind === "L" || kind === "K") {
      named[kind === "L" ? "path" : "linkpath"] = text(content);
      continue;
    }
    const prefix = field(345, 155);
    const path = named.path ?? (prefix === "" ? field(0, SHORT) : `${prefix}/${field(0, SHORT)}`);
    const link = named.linkpath ?? field(157, SHORT);
    named = {};
    const parts = inside(path);
    if (parts.length === 0) continue;
    if (kind === "5") await realFolder(directory, parts);
    else if (kind === "2") links.push([parts.join("/"), insideLink(parts, link)]);
    else if (kind === "0") await place(directory, parts, content, field(100, 8));
    else throw refusedArchive(`${path} is a special file`);
  }
  // Links come last, so that no entry of the archive is written through one.
  for (const [path, to] of links) {
    const target = await cleared(directory, path.split("/"));
    await symlink(to, target);
  }
}

function text(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  return bytes.toString("utf8", 0, end < 0 ? bytes.length : end);
}

function records(content: Buffer): { path?: string; linkpath?: string } {
  const found: Record<string, string> = {};
  for (let at = 0; at < content.length; ) {
    const length = parseInt(content.toString("utf8", at, content.indexOf(" ", at)), 10);
    if (!(length > 0)) throw refusedArchive("an extended header is not valid");
    const [, name, value] = /^\d+ ([^=]+)=([\s\S]*)\n$/.exec(content.toString("utf8", at, at + length)) ?? [];
    if (name === "path" || name === "linkpath") found[name] = value ?? "";
    at += length;
  }
  return found;
}

function refusedArchive(why: string): SteadError {
  return new SteadError(`the archive is refused: ${why}`, { code: "archive_refused" });
}

function inside(path: string): string[] {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (path.startsWith("/") || parts.includes("..")) throw refusedArchive(`the path ${path} leads out of the directory`);
  return parts;
}

function insideLink(parts: string[], to: string): string {
  let depth = parts.length - 1;
  for (const part of to.split("/")) {
    depth += part === ".." ? -1 : part === "" || part === "." ? 0 : 1;
    if (to.startsWith("/") || depth < 0) throw refusedArchive(`the link ${parts.join("/")} leads out of the directory`);
  }
  return to;
}

/** Makes the folders of a path. A folder that is a link is refused. */
async function realFolder(directory: string, parts: string[]): Promise<string> {
  let current = directory;
  for (const part of parts) {
    current = join(current, part);
    const status = await lstat(current).catch(() => undefined);
    if (status === undefined) await mkdir(current);
    else if (!status.isDirectory()) throw refusedArchive(`${current} is not a directory`);
  }
  return current;
}

async function cleared(directory: string, parts: string[]): Promise<string> {
  const target = join(directory, ...parts);
  await realFolder(directory, parts.slice(0, -1));
  await rm(target, { force: true });
  return target;
}

async function place(directory: string, parts: string[], content: Buffer, mode: string): Promise<void> {
  const target = await cleared(directory, parts);
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, content, { flag: "wx", mode: parseInt(mode.trim() || "0", 8) & 0o100 ? 0o755 : 0o644 });
}
