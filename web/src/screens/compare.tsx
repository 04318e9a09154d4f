/** Sessions side by side: outcome, time, cost and changes. */
import { useState } from "preact/hooks";
import { get, type Schemas, type Session } from "../api/client";
import { bytes, duration, number, shortId } from "../format";
import { useResource } from "../resource";
import { href, navigate, type Route } from "../router";
import { Badge, Button, Card, Copy, Empty, Facts, Failure, Loading } from "../ui/basics";
import { DiffView } from "../ui/diff-view";
import { fold } from "./session/calls";
import type { JournalEvent } from "./session/journal";

const MOST = 4;

export function Compare({ route }: { route: Route }) {
  const ids = (route.query.get("ids") ?? "").split(",").filter(Boolean).slice(0, MOST);
  const [adding, setAdding] = useState("");
  const show = (next: string[]) => navigate(href(["compare"], { ids: next.join(",") }));
  return (
    <>
      <header class="top">
        <div class="grow">
          <h1>Compare</h1>
          <span class="muted">{ids.length ? `${ids.length} of up to ${MOST} sessions` : ""}</span>
        </div>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            if (adding.trim()) show([...new Set([...ids, adding.trim()])]);
            setAdding("");
          }}
        >
          <input value={adding} placeholder="Session id" aria-label="Session id" onInput={(event) => setAdding(event.currentTarget.value)} />
          <Button type="submit" disabled={ids.length >= MOST}>
            Add
          </Button>
        </form>
      </header>
      <div class="content fixed">
        {ids.length === 0 ? (
          <Empty title="Nothing to compare">
            Select two to four rows in the <a href={href(["sessions"])}>list of sessions</a>, or fork a session.
          </Empty>
        ) : (
          <div class="columns">
            {ids.map((id) => (
              <Column key={id} id={id} onRemove={() => show(ids.filter((one) => one !== id))} />
            ))}
          </div>
        )}
      </div>
    </>
  );
}

/** Most events that are read for the numbers of a column. */
const EVENTS = 2000;

async function journalOf(session: Session, signal: AbortSignal): Promise<JournalEvent[]> {
  const events: JournalEvent[] = [];
  let after = Math.max(0, session.seq - EVENTS);
  for (;;) {
    const page = await get("/api/v1/sessions/{id}/events", { path: { id: session.id }, query: { after, limit: 500 }, signal });
    events.push(...(page.items as unknown as JournalEvent[]));
    after = events.at(-1)?.seq ?? after;
    if (page.items.length < 500) return events;
  }
}

function Column({ id, onRemove }: { id: string; onRemove: () => void }) {
  const session = useResource((signal) => get("/api/v1/sessions/{id}", { path: { id }, signal }), [id], 5000);
  const seq = session.data?.seq;
  const rows = useResource(async (signal) => (session.data ? fold(await journalOf(session.data, signal)) : []), [id, seq]);
  const diff = useResource(
    async (signal) =>
      session.data?.status === "active" && session.data.workspace
        ? ((await get("/api/v1/sessions/{id}/diff", { path: { id }, query: { format: "json" }, signal })) as Schemas["Diff"])
        : undefined,
    [id, seq],
  );
  const usage = useResource(
    async (signal) => (session.data?.status === "active" ? await get("/api/v1/sessions/{id}/usage", { path: { id }, signal }) : null),
    [id, session.data?.status],
  );
  const data = session.data;
  if (!data) return <Card title={shortId(id)} actions={<Button small onClick={onRemove}>Remove</Button>}>{session.error ? <Failure error={session.error} /> : <Loading />}</Card>;
  const calls = (rows.data ?? []).filter((row) => row.form === "call");
  const failed = calls.filter((row) => row.kind === "bad");
  const spent = calls.reduce((sum, row) => sum + (row.ms ?? 0), 0);
  const disk = (usage.data as Schemas["WorkspaceUsage"] | null | undefined)?.own_bytes;
  return (
    <div class="panel">
      <div class="slider">
        <a href={href(["sessions", id])}>{data.task.prompt?.split("\n")[0] || shortId(id)}</a>
        <Badge status={data.status} />
        <span class="grow" />
        <Button small kind="quiet" onClick={onRemove} label={`Remove ${id}`}>
          ✕
        </Button>
      </div>
      <div class="detail">
        <Facts
          items={[
            ["Session", <code>{id}</code>],
            ["Agent type", data.agent_type],
            ["Events", number(data.seq)],
            ["Calls", `${number(calls.length)}, ${failed.length} failed`],
            ["Time in calls", duration(spent)],
            ["Made in", duration(data.provisioning?.duration_ms)],
            ["Disk", bytes(disk)],
            ["Failure", data.failure?.message ?? "none"],
          ]}
        />
        {failed.slice(-3).map((row) => (
          <div class="tree-line" key={row.key}>
            <span class="mark bad" aria-label="failed">✕</span>
            <a href={href(["sessions", id, "timeline"], { at: String(row.endSeq) })}>{row.title}</a>
            <span class="muted cut">{row.message}</span>
          </div>
        ))}
        <div class="row">
          <Button small href={`/api/v1/sessions/${id}/export?format=patch`} download={`${id}.patch`}>Download patch</Button>
          <Copy text={`stead apply ${id}`} label="Copy apply command" />
        </div>
      </div>
      {diff.error && <Failure error={diff.error} />}
      {diff.data ? <DiffView diff={diff.data} link={(path) => href(["sessions", id, "files"], { path })} /> : <Empty title={data.status === "active" ? "Comparing…" : "No changes to show"}>{data.status === "active" ? "" : `The session is ${data.status}.`}</Empty>}
    </div>
  );
}
