/** The list of sessions: live, filtered, of any length. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Who } from "../app";
import { del, get, type Session } from "../api/client";
import { plural, shortId } from "../format";
import { href, replaceQuery, type Route } from "../router";
import { useResource } from "../resource";
import { Ago, Badge, Button, Empty, Failure, Loading, Select } from "../ui/basics";
import { useConfirm } from "../ui/dialog";
import { VirtualList } from "../ui/virtual";
import { NewSession } from "./sessions/new-session";
import { usePages } from "./sessions/pages";

const STATUSES = ["provisioning", "active", "paused", "closing", "closed", "failed"];

export function Sessions({ who, route }: { who: Who; route: Route }) {
  const filters = Object.fromEntries(route.query) as Record<string, string>;
  const [text, setText] = useState(filters["q"] ?? "");
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [creating, setCreating] = useState(false);
  const [ask, question] = useConfirm();
  const query = useMemo(() => toQuery(filters), [route.query.toString()]);
  const pages = usePages(query);
  const types = useResource((signal) => get("/api/v1/agent-types", { query: { limit: 500 }, signal }), []);
  const projects = useResource((signal) => get("/api/v1/projects", { query: { limit: 500 }, signal }), []);

  useEffect(() => {
    const timer = setTimeout(() => {
      if (text !== (filters["q"] ?? "")) replaceQuery({ ...filters, q: text });
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);

  const change = (name: string) => (value: string) => replaceQuery({ ...filters, [name]: value });
  const toggle = (id: string) =>
    setChosen((old) => {
      const next = new Set(old);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  const can = (permission: string) => who.permissions.includes(permission as never);
  const closable = [...chosen];

  return (
    <>
      <header class="top">
        <div class="grow">
          <h1>Sessions</h1>
          <span class="muted" role="status">
            {pages.sessions.length}
            {pages.complete ? "" : "+"} shown
          </span>
        </div>
        {chosen.size > 0 && (
          <>
            {chosen.size > 1 && chosen.size < 5 && <Button href={href(["compare"], { ids: closable.join(",") })}>Compare {chosen.size}</Button>}
            {can("sessions:manage") && (
              <Button
                kind="danger"
                onClick={() =>
                  ask({
                    title: `Close ${plural(closable.length, "session")}?`,
                    text: "Their boxes and files are removed. Their journals stay. This cannot be undone.",
                    action: `Close ${plural(closable.length, "session")}`,
                    run: async () => {
                      for (const id of closable) await del("/api/v1/sessions/{id}", { path: { id } });
                      setChosen(new Set());
                      pages.reload();
                    },
                  })
                }
              >
                Close {chosen.size}
              </Button>
            )}
          </>
        )}
        {can("sessions:create") && (
          <Button kind="primary" onClick={() => setCreating(true)}>
            New session
          </Button>
        )}
      </header>
      <div class="content fixed">
        <div class="filters" role="search">
          <input
            type="search"
            placeholder="Search id, owner, agent type, task, metadata"
            aria-label="Search sessions"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <Select label="Status" value={filters["status"] ?? ""} onChange={change("status")} options={[["", "Any status"], ...STATUSES.map((one): [string, string] => [one, one])]} />
          <Select label="Agent type" value={filters["agent_type"] ?? ""} onChange={change("agent_type")} options={[["", "Any agent type"], ...(types.data?.items ?? []).map((one): [string, string] => [one.id, one.id])]} />
          {!who.project && (projects.data?.items.length ?? 0) > 0 && (
            <Select label="Project" value={filters["project"] ?? ""} onChange={change("project")} options={[["", "Any project"], ...(projects.data?.items ?? []).map((one): [string, string] => [one.id, one.id])]} />
          )}
          <input
            placeholder="Owner"
            aria-label="Owner"
            size={14}
            defaultValue={filters["owner"] ?? ""}
            onChange={(event) => change("owner")(event.currentTarget.value.trim())}
          />
          <input
            placeholder="metadata: key=value"
            aria-label="Metadata, as key=value"
            size={18}
            defaultValue={filters["metadata"] ?? ""}
            onChange={(event) => change("metadata")(event.currentTarget.value.trim())}
          />
          {Object.keys(filters).length > 0 && (
            <Button kind="quiet" onClick={() => { setText(""); replaceQuery({}); }}>
              Clear
            </Button>
          )}
        </div>
        {pages.error && <Failure error={pages.error} />}
        {pages.loading && pages.sessions.length === 0 ? (
          <Loading what="Loading sessions" />
        ) : pages.sessions.length === 0 && !pages.error ? (
          <Empty title="No sessions">
            {Object.keys(filters).length ? "Nothing matches these filters." : "Create one here, or with `stead session create`."}
          </Empty>
        ) : (
          <div class="panel grow">
            <VirtualList
              count={pages.sessions.length}
              rowHeight={44}
              label="Sessions"
              onRange={pages.onRange}
              head={
                <div class="session-row head" aria-hidden="true">
                  <span />
                  <span>Session</span>
                  <span>Status</span>
                  <span>Agent type</span>
                  <span>Project</span>
                  <span>Owner</span>
                  <span>Created</span>
                </div>
              }
              render={(index) => {
                const session = pages.sessions[index]!;
                return <Row key={session.id} session={session} chosen={chosen.has(session.id)} onToggle={() => toggle(session.id)} />;
              }}
            />
          </div>
        )}
      </div>
      {creating && <NewSession types={types.data?.items ?? []} onClose={() => setCreating(false)} />}
      {question}
    </>
  );
}

function Row({ session, chosen, onToggle }: { session: Session; chosen: boolean; onToggle: () => void }) {
  const prompt = session.task.prompt ?? session.task.id;
  const metadata = Object.entries(session.metadata).map(([key, value]) => `${key}=${String(value)}`).join(" ");
  return (
    <div class="session-row" role="listitem">
      <input type="checkbox" checked={chosen} onChange={onToggle} aria-label={`Select ${session.id}`} />
      <div class="name">
        <div class="cut">
          <a href={href(["sessions", session.id])}>{prompt || shortId(session.id)}</a>
        </div>
        <small class="cut mono">{prompt ? `${shortId(session.id)} ${metadata}` : metadata || " "}</small>
      </div>
      <span>
        <Badge status={session.degraded && session.status === "active" ? "degraded" : session.status} />
      </span>
      <span class="cut wide-only">{session.agent_type}</span>
      <span class="cut wide-only">{session.project ?? "–"}</span>
      <span class="cut wide-only" title={session.owner}>{session.owner}</span>
      <span class="wide-only muted nowrap">
        <Ago time={session.created_at} />
      </span>
    </div>
  );
}

function toQuery(filters: Record<string, string>): Record<string, string> {
  const { metadata, ...rest } = filters;
  const query: Record<string, string> = { ...rest };
  const found = /^([^=]+)=(.*)$/.exec(metadata ?? "");
  if (found) query[`metadata.${found[1]!.trim()}`] = found[2]!.trim();
  return query;
}
