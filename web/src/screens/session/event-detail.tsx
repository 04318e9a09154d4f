/** The details of a row: arguments, output, changed files, and its events as they are recorded. */
import type { ComponentChildren } from "preact";
import type { Session } from "../../api/client";
import { duration, when } from "../../format";
import { href } from "../../router";
import { Badge, Facts, Notice } from "../../ui/basics";
import { changedFiles, spoken, type Row } from "./calls";

type Fields = Record<string, unknown>;
const object = (value: unknown): Fields => (value && typeof value === "object" ? (value as Fields) : {});

export function EventDetail({ row, session, children }: { row: Row; session: Session; children?: ComponentChildren }) {
  const [first] = row.events;
  const last = row.events.at(-1)!;
  const args = first && (first["arguments"] ?? first["operation"] ?? first["spec"]);
  const answer = object(last["answer"]);
  const result = answer["result"];
  const output = object(last["output"]);
  const error = object(answer["error"]);
  const files = changedFiles(row);
  return (
    <div class="detail stack" aria-live="polite">
      <div class="row">
        <h2>{row.title}</h2>
        <Badge status={row.running ? "running" : row.kind === "bad" ? "failed" : row.kind === "warn" ? "interrupted" : "done"} kind={row.running ? "info" : row.kind} />
      </div>
      {row.kind === "bad" && row.message && (
        <Notice kind="bad" title={row.message}>
          {typeof error["hint"] === "string" ? error["hint"] : undefined}
        </Notice>
      )}
      {children}
      <Facts
        items={[
          ["Events", row.seq === row.endSeq ? `${row.seq}` : `${row.seq} to ${row.endSeq}`],
          ["Time", when(row.start)],
          row.ms !== undefined && ["Took", duration(row.ms)],
          Boolean(first?.["actor"]) && ["By", <code>{actorText(first!["actor"])}</code>],
        ]}
      />
      {args !== undefined && args !== null && <Block title="Arguments" value={args} />}
      {result !== undefined && result !== null && <Result value={object(result)} raw={result} />}
      {typeof answer["message"] === "string" && !result && <Block title="Answer" value={answer["message"]} />}
      {Object.keys(output).length > 0 && <Result value={output} raw={output} />}
      {files.length > 0 && (
        <div>
          <h3>Changed files</h3>
          {files.slice(0, 100).map((file) => (
            <div class="tree-line" key={file.path + file.what}>
              <span class="muted">{file.what}</span>
              <a href={href(["sessions", session.id, "files"], { path: file.path.replace(/^\/+/, "") })}>
                <code>{file.path}</code>
              </a>
            </div>
          ))}
          {files.length > 100 && <p class="muted">and {files.length - 100} more</p>}
        </div>
      )}
      <details>
        <summary class="muted">Recorded events</summary>
        {row.events.map((event) => (
          <Block key={event.seq} title={`${event.seq} ${spoken(event.type)}`} value={event} />
        ))}
      </details>
    </div>
  );
}

function actorText(actor: unknown): string {
  const fields = object(actor);
  return [fields["type"] ?? fields["kind"], fields["name"] ?? fields["session"]].filter(Boolean).map(String).join(":") || JSON.stringify(actor);
}

/** Output streams as text, and the rest as JSON. */
function Result({ value, raw }: { value: Fields; raw: unknown }) {
  const streams = ["stdout", "stderr", "output", "content"].filter((name) => typeof value[name] === "string" && value[name] !== "");
  const rest = Object.fromEntries(Object.entries(value).filter(([name]) => !streams.includes(name)));
  if (typeof raw !== "object" || Array.isArray(raw)) return <Block title="Result" value={raw} />;
  return (
    <>
      {streams.map((name) => (
        <Block key={name} title={name} value={value[name]} />
      ))}
      {Object.keys(rest).length > 0 && <Block title="Result" value={rest} />}
    </>
  );
}

const MOST = 20_000;

function Block({ title, value }: { title: string; value: unknown }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return (
    <div>
      <h3>{title}</h3>
      <pre class="box" tabIndex={0}>
        {text.slice(0, MOST)}
        {text.length > MOST && `\n… ${text.length - MOST} more characters`}
      </pre>
    </div>
  );
}
