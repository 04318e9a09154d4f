/** Commands of a session: run one, and read the output of each while it runs. */
import { useEffect, useRef, useState } from "preact/hooks";
import { del, get, newKey, post, type Schemas, type Session } from "../../api/client";
import { openStream } from "../../api/stream";
import { duration } from "../../format";
import { useResource } from "../../resource";
import { Ago, Badge, Button, Card, Failure, Table } from "../../ui/basics";
import type { Journal } from "./journal";

type Exec = Schemas["Exec"];

export function Execs({ session, journal, mayUse }: { session: Session; journal: Journal; mayUse: boolean }) {
  const path = { id: session.id };
  const marks = journal.events.filter((event) => event.type.startsWith("Exec")).length;
  const execs = useResource((signal) => get("/api/v1/sessions/{id}/execs", { path, signal }), [session.id, marks]);
  const [command, setCommand] = useState("");
  const [error, setError] = useState<Error>();
  const [shown, setShown] = useState<string>();
  const items = [...(execs.data?.items ?? [])].reverse();
  return (
    <Card title="Commands" actions={<span class="muted">{items.length} known</span>}>
      {mayUse && session.status === "active" && (
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            if (!command.trim()) return;
            setError(undefined);
            post("/api/v1/sessions/{id}/execs", { path, body: { command, background: true }, headers: { "Idempotency-Key": newKey() } }).then(
              (exec) => {
                setCommand("");
                setShown((exec as Exec).id);
                execs.reload();
              },
              setError,
            );
          }}
        >
          <input class="grow mono" value={command} placeholder="Run a command" aria-label="Command" onInput={(event) => setCommand(event.currentTarget.value)} />
          <Button type="submit">Run</Button>
        </form>
      )}
      {error && <Failure error={error} />}
      {execs.error && <Failure error={execs.error} />}
      {items.length > 0 && (
        <Table head={["Command", "Status", "Time", "Started", ""]} label="Commands">
          {items.slice(0, 50).map((exec) => (
            <ExecRow key={exec.id} exec={exec} session={session.id} shown={shown === exec.id} onToggle={() => setShown(shown === exec.id ? undefined : exec.id)} mayUse={mayUse} onChange={execs.reload} />
          ))}
        </Table>
      )}
    </Card>
  );
}

function ExecRow({ exec, session, shown, onToggle, mayUse, onChange }: { exec: Exec; session: string; shown: boolean; onToggle: () => void; mayUse: boolean; onChange: () => void }) {
  const status = exec.status === "finished" ? `exit ${exec.exit_code}` : exec.status;
  const kind = exec.status === "running" ? "info" : exec.status === "finished" && exec.exit_code === 0 ? "good" : exec.status === "interrupted" || exec.killed ? "warn" : "bad";
  return (
    <>
      <tr>
        <td>
          <code>{exec.command ?? exec.argv.join(" ")}</code> {exec.pty && <span class="muted">terminal</span>}
        </td>
        <td>
          <Badge status={status} kind={kind} /> {exec.oom && <Badge status="out of memory" kind="bad" />} {exec.timed_out && <Badge status="timed out" kind="bad" />}
        </td>
        <td class="nowrap">{duration(exec.duration_ms)}</td>
        <td class="nowrap muted">
          <Ago time={exec.started_at} />
        </td>
        <td class="right nowrap">
          <Button small kind="quiet" onClick={onToggle} pressed={shown}>
            Output
          </Button>
          {exec.status === "running" && mayUse && (
            <Button small kind="danger" onClick={() => void del("/api/v1/sessions/{id}/execs/{exec}", { path: { id: session, exec: exec.id } }).finally(onChange)}>
              Kill
            </Button>
          )}
        </td>
      </tr>
      {shown && (
        <tr>
          <td colSpan={5}>
            <Output session={session} exec={exec.id} onEnd={onChange} />
          </td>
        </tr>
      )}
    </>
  );
}

interface Chunk {
  seq: number;
  stream: string;
  encoding: string;
  data: string;
}

/** Most characters that a log keeps. Older ones are dropped. */
const MOST = 400_000;

/** The output of an exec: what there is, then more as it comes. */
export function Output({ session, exec, onEnd }: { session: string; exec: string; onEnd?: () => void }) {
  const [parts, setParts] = useState<{ stream: string; text: string }[]>([]);
  const [note, setNote] = useState("");
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    setParts([]);
    const decoders: Record<string, TextDecoder> = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    const stream = openStream({
      after: "0",
      address: (after) => `/api/v1/sessions/${session}/execs/${exec}/stream?after=${after}`,
      onEvent: (event) => {
        if (event.event === "missed") setNote("Some output is lost: the box keeps only the latest.");
        if (event.event === "finished") {
          stream.close();
          onEnd?.();
        }
        if (event.event !== "output") return;
        const chunk = JSON.parse(event.data) as Chunk;
        const added = decoders[chunk.stream]!.decode(chunkBytes(chunk), { stream: true });
        setParts((old) => append(old, chunk.stream, strip(added)));
      },
      onState: (state, why) => setNote(state === "lost" ? (why ?? "") : ""),
    });
    return () => stream.close();
  }, [session, exec]);
  useEffect(() => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, [parts]);
  return (
    <div class="log" ref={box} tabIndex={0} role="log" aria-label="Output">
      {note && <div class="muted">{note}</div>}
      {parts.length === 0 && !note && <span class="muted">No output yet.</span>}
      {parts.map((part, index) => (
        <span key={index} class={part.stream}>
          {part.text}
        </span>
      ))}
    </div>
  );
}

export function chunkBytes(chunk: Chunk): Uint8Array {
  if (chunk.encoding !== "base64") return new TextEncoder().encode(chunk.data);
  return Uint8Array.from(atob(chunk.data), (letter) => letter.charCodeAt(0));
}

/** Removes terminal control sequences, which a log cannot show. */
function strip(text: string): string {
  return text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]/g, "").replace(/\r\n/g, "\n");
}

function append(old: { stream: string; text: string }[], stream: string, text: string) {
  const last = old.at(-1);
  const next = last?.stream === stream ? [...old.slice(0, -1), { stream, text: last.text + text }] : [...old, { stream, text }];
  let size = next.reduce((sum, part) => sum + part.text.length, 0);
  while (size > MOST && next.length > 1) size -= next.shift()!.text.length;
  if (size > MOST) next[0] = { ...next[0]!, text: next[0]!.text.slice(-MOST) };
  return next;
}
