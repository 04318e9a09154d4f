/** One session: its frame with status and actions, and the parts as tabs. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Who } from "../app";
import { del, get, newKey, post, type Session } from "../api/client";
import { shortId } from "../format";
import { useResource } from "../resource";
import { href, navigate, type Route } from "../router";
import { Ago, Badge, Button, Copy, Failure, Field, Loading, Tabs } from "../ui/basics";
import { Dialog, useConfirm } from "../ui/dialog";
import { Files } from "./session/files";
import { type JournalEvent, useJournal } from "./session/journal";
import { Network } from "./session/network";
import { Overview } from "./session/overview";
import { Ports } from "./session/ports";
import { Prompt } from "./session/prompt";
import { Replay } from "./session/replay";
import { Terminals } from "./session/terminals";
import { Timeline } from "./session/timeline";

const PARTS = [
  ["overview", "Overview"],
  ["timeline", "Timeline"],
  ["files", "Files"],
  ["terminal", "Terminal"],
  ["ports", "Ports"],
  ["network", "Network"],
  ["prompt", "Prompt"],
  ["replay", "Replay"],
] as const;

/** Parts that fill the window and scroll inside. */
const FIXED = ["timeline", "files", "terminal"];

/** Sequence number of the last event about the network, so that the report is read again after it. */
function networkEvents(events: JournalEvent[]): number {
  return events.findLast((event) => event.type.startsWith("Network"))?.seq ?? 0;
}

export function SessionScreen({ id, who, route }: { id: string; who: Who; route: Route }) {
  const part = route.parts[2] ?? "overview";
  const session = useResource((signal) => get("/api/v1/sessions/{id}", { path: { id }, signal }), [id], 5000);
  const journal = useJournal(id, session.data?.seq);
  const known = useRef(0);

  // A new event may change the status, the workspace or the warnings.
  useEffect(() => {
    if (journal.last <= (session.data?.seq ?? 0) || journal.last === known.current) return;
    known.current = journal.last;
    const timer = setTimeout(session.reload, 250);
    return () => clearTimeout(timer);
  }, [journal.last]);

  if (!session.data) {
    return (
      <div class="content">
        {session.error ? <Failure error={session.error} /> : <Loading what="Loading session" />}
        {session.error && <a href={href(["sessions"])}>All sessions</a>}
      </div>
    );
  }
  const data = session.data;
  const mayUse = who.permissions.includes("sessions:use");
  return (
    <>
      <header class="top">
        <div class="grow">
          <a href={href(["sessions"])} aria-label="All sessions">
            Sessions
          </a>
          <span class="muted" aria-hidden="true">/</span>
          <h1 class="cut">{data.task.prompt?.split("\n")[0] || shortId(data.id)}</h1>
          <Badge status={data.status} />
          {data.degraded && <Badge status="degraded" />}
          {journal.lost && <Badge status="reconnecting" kind="warn" />}
        </div>
        <Actions session={data} who={who} reload={session.reload} />
      </header>
      <div class={`content ${FIXED.includes(part) ? "fixed" : ""}`}>
        <div class="row muted">
          <code>{data.id}</code>
          <Copy text={data.id} />
          <span>{data.agent_type}</span>
          {data.project && <span>in {data.project}</span>}
          <span>by {data.owner}</span>
          <span>
            created <Ago time={data.created_at} />
          </span>
          {data.status !== "closed" && data.status !== "failed" && (
            <span>
              ends <Ago time={data.expires_at} />
            </span>
          )}
        </div>
        <Tabs current={part} tabs={PARTS.map(([name, label]) => ({ id: name, label, href: href(["sessions", id, name]) }))} />
        {session.error && <Failure error={session.error} />}
        {part === "overview" && <Overview session={data} journal={journal} mayUse={mayUse} />}
        {part === "timeline" && <Timeline session={data} journal={journal} who={who} route={route} />}
        {part === "files" && <Files session={data} mayUse={mayUse} route={route} />}
        {part === "terminal" && <Terminals session={data} mayUse={mayUse} route={route} />}
        {part === "ports" && <Ports session={data} mayUse={mayUse} />}
        {part === "network" && <Network session={data} who={who} last={networkEvents(journal.events)} />}
        {part === "prompt" && <Prompt session={data} />}
        {part === "replay" && <Replay session={data} />}
      </div>
    </>
  );
}

function Actions({ session, who, reload }: { session: Session; who: Who; reload: () => void }) {
  const [ask, question] = useConfirm();
  const [error, setError] = useState<Error>();
  const [forking, setForking] = useState(false);
  const path = { id: session.id };
  const may = (permission: string) => who.permissions.includes(permission as never);
  const manage = may("sessions:manage");
  const run = (action: Promise<unknown>) => void action.then(() => { setError(undefined); reload(); }, setError);
  const open = session.status === "active" || session.status === "provisioning" || session.status === "paused";
  return (
    <div class="row">
      {error && <Failure error={error} />}
      {manage && session.status === "active" && session.workspace && (
        <Button onClick={() => run(post("/api/v1/sessions/{id}/pause", { path, body: { mode: "stop" } }))}>Pause</Button>
      )}
      {manage && session.status === "paused" && (
        <Button kind="primary" onClick={() => run(post("/api/v1/sessions/{id}/resume", { path }))}>
          Resume
        </Button>
      )}
      {may("sessions:create") && session.status === "active" && session.workspace && (
        <Button onClick={() => setForking(true)}>Fork</Button>
      )}
      {manage && open && (
        <Button
          kind="danger"
          onClick={() =>
            ask({
              title: "Close this session?",
              text: "Its box and its files are removed. Its journal stays. This cannot be undone.",
              action: "Close session",
              run: () => del("/api/v1/sessions/{id}", { path }).then(reload),
            })
          }
        >
          Close
        </Button>
      )}
      {question}
      {forking && <Fork session={session} onClose={() => setForking(false)} />}
    </div>
  );
}

/** Makes copies of a session with their own files, as they are now or after an event. */
export function Fork({ session, at, onClose }: { session: Session; at?: number; onClose: () => void }) {
  const [count, setCount] = useState(1);
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const [key] = useState(newKey);
  return (
    <Dialog title={at ? `Fork from event ${at}` : "Fork this session"} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          setBusy(true);
          post("/api/v1/sessions/{id}/clone", {
            path: { id: session.id },
            body: { isolation: "full", count, ...(at ? { at } : {}) },
            headers: { "Idempotency-Key": key },
          }).then(
            (made) => {
              const ids = made.items.map((one) => one.id);
              onClose();
              navigate(ids.length === 1 ? href(["sessions", ids[0]!]) : href(["compare"], { ids: ids.slice(0, 4).join(",") }));
            },
            (failure: Error) => {
              setError(failure);
              setBusy(false);
            },
          );
        }}
      >
        <p>
          Each fork is a new session with its own copy of the files{at ? `, as they were after event ${at}` : " as they are now"}.
          This session does not change.
        </p>
        <Field label="Number of forks">
          <input type="number" min={1} max={16} value={count} onInput={(event) => setCount(Number(event.currentTarget.value))} />
        </Field>
        {error && <Failure error={error} />}
        <div class="row end">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={busy}>
            Fork
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
