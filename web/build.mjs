// Builds the page and packs it into one file: node build.mjs API_DOCUMENT BUNDLE
//
// The bundle is a tar archive of gzip files without times or owners, so that the same source gives
// the same bytes. The server includes it.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const folder = dirname(fileURLToPath(import.meta.url));
const [document, bundle] = process.argv.slice(2);
if (!document || !bundle) throw new Error("usage: node build.mjs API_DOCUMENT BUNDLE");

function run(script, ...args) {
  const program = join(folder, "node_modules/.bin", script);
  const done = spawnSync(process.execPath, [program, ...args], { cwd: folder, stdio: "inherit" });
  if (done.status !== 0) process.exit(done.status ?? 1);
}

// The types of requests and answers come from the API document, so the page compiles only if it fits the API.
run("openapi-typescript", document, "--default-non-nullable", "false", "-o", "src/api/schema.d.ts");
run("tsc", "--project", ".");
run("vite", "build", "--logLevel", "warn");

const output = join(folder, "dist");
const files = readdirSync(output, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(output.length + 1))
  .sort();
const parts = files.map((name) => entry(name, gzipSync(readFileSync(join(output, name)), { level: 9 })));
writeFileSync(bundle, Buffer.concat([...parts, Buffer.alloc(1024)]));
const index = readFileSync(join(output, "index.html"), "utf8");
const first = files.filter((name) => name === "index.html" || index.includes(name));
const size = (names) => names.reduce((sum, name) => sum + gzipSync(readFileSync(join(output, name)), { level: 9 }).length, 0);
console.log(`${files.length} files, ${size(files)} bytes compressed, ${size(first)} of them for the first view`);

// A file of a ustar archive: a header of 512 bytes and the content, padded to blocks of 512.
function entry(name, content) {
  const header = Buffer.alloc(512);
  const octal = (value, length) => value.toString(8).padStart(length - 1, "0") + "\0";
  header.write(name, 0);
  header.write(octal(0o644, 8), 100);
  header.write(octal(0, 8), 108);
  header.write(octal(0, 8), 116);
  header.write(octal(content.length, 12), 124);
  header.write(octal(0, 12), 136);
  header.write("        ", 148);
  header.write("0", 156);
  header.write("ustar\0", 257);
  header.write("00", 263);
  header.write(octal(header.reduce((sum, byte) => sum + byte, 0), 7) + " ", 148);
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}
