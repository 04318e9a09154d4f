/** A patch as lines, with a list of its files. */
import { useMemo } from "preact/hooks";
import type { Schemas } from "../api/client";
import { plural } from "../format";

/** Longer patches are cut. The download has all of it. */
const MOST_LINES = 20_000;

interface Line {
  kind: "file" | "hunk" | "add" | "del" | "same";
  text: string;
}

export function DiffView({ diff, link }: { diff: Schemas["Diff"]; link?: (path: string) => string }) {
  const { lines, cut } = useMemo(() => parse(diff.patch), [diff.patch]);
  const added = diff.files?.reduce((sum, file) => sum + (file.insertions ?? 0), 0);
  const removed = diff.files?.reduce((sum, file) => sum + (file.deletions ?? 0), 0);
  return (
    <div class="diff grow" tabIndex={0} role="region" aria-label="Changes">
      <div class="line muted">
        {plural(diff.changed.length, "file")} changed
        {added !== undefined && (
          <>
            , <span class="mark good">+{added}</span> <span class="mark bad">−{removed}</span>
          </>
        )}
        {diff.unshown.length > 0 && `, ${diff.unshown.length} not shown`}
      </div>
      {lines.map((line, index) =>
        line.kind === "file" ? (
          <div class="file" key={index}>
            {link ? <a href={link(line.text)}>{line.text}</a> : line.text}
          </div>
        ) : (
          <div class={`line ${line.kind}`} key={index}>
            {line.text || " "}
          </div>
        ),
      )}
      {diff.unshown.map((path) => (
        <div class="file" key={path}>
          {path} <span class="muted">not shown as text</span>
        </div>
      ))}
      {cut && <div class="line muted">The rest is cut. Download the patch to see all of it.</div>}
    </div>
  );
}

function parse(patch: string): { lines: Line[]; cut: boolean } {
  const all = patch.split("\n");
  const lines: Line[] = [];
  let inHunk = false;
  for (const text of all.slice(0, MOST_LINES)) {
    if (text.startsWith("diff --git ")) {
      inHunk = false;
      lines.push({ kind: "file", text: / b\/(.*)$/.exec(text)?.[1] ?? text.slice(11) });
    } else if (text.startsWith("@@")) {
      inHunk = true;
      lines.push({ kind: "hunk", text });
    } else if (!inHunk) {
      if (/^(Binary|rename|new file|deleted file|old mode|new mode|similarity)/.test(text)) lines.push({ kind: "same", text });
      else if (text.startsWith("+++ ") && lines.at(-1)?.kind !== "file" && !lines.some((line) => line.kind === "file")) lines.push({ kind: "file", text: text.slice(4).replace(/^b\//, "") });
    } else {
      lines.push({ kind: text.startsWith("+") ? "add" : text.startsWith("-") ? "del" : "same", text });
    }
  }
  return { lines, cut: all.length > MOST_LINES };
}
