/** Every call of a session on a time axis. At each event: what it changed, rewind and fork. */
import { useMemo, useState } from "preact/hooks";
import type { Who } from "../../app";
import { get, post, type Schemas, type Session } from "../../api/client";
import { clock, duration, number, shortId } from "../../format";
import { useResource } from "../../resource";
import { href, replaceQuery, type Route } from "../../router";
import { Button, Empty, Failure, Loading, Notice } from "../../ui/basics";
import { useConfirm } from "../../ui/dialog";
import { VirtualList } from "../../ui/virtual";
import { Fork } from "../session";
import { fold, type Row } from "./calls";
import { EventDetail } from "./event-detail";
import { NotKept } from "./not-kept";
import type { Journal } from "./journal";

const MARKS: Record<string, string> = { good: "✓", bad: "✕", warn: "!", info: "●", idle: "·" };

export function Timeline({ session, journal, who, route }: { session: Session; journal: Journal; who: Who; route: Route }) {
  const [only, setOnly] = useState("");
  const [words, setWords] = useState("");
  const [ask, question] = useConfirm();
  const [forkAt, setForkAt] = useState<number>();
  const all = useMemo(() => fold(journal.events), [journal.events]);
  const rows = useMemo(() => filter(all, only, words), [all, only, words]);
  const points = useResource((signal) => get("/api/v1/sessions/{id}/rewind", { path: { id: session.id }, signal }), [session.id, session.seq]);
  const at = Number(route.query.get("at") ?? 0) || undefined;
  const chosen = at ? all.find((row) => row.seq <= at && at <= row.endSeq) ?? all.findLast((row) => row.seq <= at) : undefined;
  const index = chosen ? rows.indexOf(chosen) : -1;
  const go = (seq: number) => {
    if (seq < (journal.events[0]?.seq ?? 1)) journal.loadTo(seq);
    replaceQuery({ at: String(seq) });
  };
  const moment = chosen && checkpointAt(points.data, chosen.endSeq);
  const may = (permission: string) => who.permissions.includes(permission as never);

  const [from, to] = useMemo(() => {
    const timed = all.filter((row) => row.form !== "group");
    const first = timed[0]?.start ?? 0;
    return [first, Math.max(...timed.slice(-400).map((row) => row.start + (row.ms ?? 0)), first + 1)];
  }, [all]);

  if (journal.error) return <Failure error={journal.error} />;
  if (!journal.ready && all.length === 0) return <Loading what="Loading the journal" />;
  const first = journal.events[0]?.seq ?? 1;
  return (
    <div class="timeline">
      <div class="panel">
        <div class="slider">
          <Button small label="Previous call" onClick={() => rows[Math.max(0, (index < 0 ? rows.length : index) - 1)] && go(rows[Math.max(0, (index < 0 ? rows.length : index) - 1)]!.endSeq)}>
            ‹
          </Button>
          <input
            type="range"
            min={1}
            max={Math.max(1, journal.last)}
            value={at ?? journal.last}
            aria-label="Event"
            onInput={(event) => go(Number(event.currentTarget.value))}
          />
          <Button small label="Next call" onClick={() => rows[index + 1] && go(rows[index + 1]!.endSeq)}>
            ›
          </Button>
          <span class="mono nowrap">
            {number(at ?? journal.last)} / {number(journal.last)}
          </span>
          <input type="search" placeholder="Filter" aria-label="Filter rows" size={12} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          <select aria-label="Kind of rows" value={only} onChange={(event) => setOnly(event.currentTarget.value)}>
            <option value="">All rows</option>
            <option value="call">Calls</option>
            <option value="bad">Failed and refused</option>
            <option value="changed">Changed files</option>
          </select>
        </div>
        {first > 1 && (
          <div class="slider">
            <span class="muted">Events 1 to {number(first - 1)} are not loaded.</span>
            <Button small onClick={journal.loadEarlier}>
              Load earlier
            </Button>
          </div>
        )}
        {rows.length === 0 ? (
          <Empty title="Nothing here">{only || words ? "No row matches." : "The journal is empty."}</Empty>
        ) : (
          <VirtualList
            count={rows.length}
            rowHeight={30}
            label="Calls and events"
            focus={index >= 0 ? index : undefined}
            follow={!at}
            render={(position) => {
              const row = rows[position]!;
              return <CallRow key={row.key + row.seq} row={row} from={from} to={to} current={row === chosen} onClick={() => go(row.endSeq)} />;
            }}
          />
        )}
      </div>
      <div class="panel">
        {chosen ? (
          <EventDetail row={chosen} session={session}>
            <Checkpoint moment={moment} points={points.data} />
            <div class="row">
              {may("sessions:use") && moment?.snapshot && session.status === "active" && (
                <Button
                  onClick={() =>
                    ask({
                      title: `Rewind to event ${chosen.endSeq}?`,
                      text: "All files go back to how they were after this event. The current files are kept first, so that the rewind can be undone. Running programs keep running.",
                      action: "Rewind",
                      run: async () => {
                        const done = await post("/api/v1/sessions/{id}/rewind", { path: { id: session.id }, body: { to: chosen.endSeq } });
                        replaceQuery({ at: String(done.seq) });
                      },
                    })
                  }
                >
                  Rewind to here
                </Button>
              )}
              {may("sessions:create") && moment?.snapshot && session.status === "active" && (
                <Button onClick={() => setForkAt(chosen.endSeq)}>Fork from here</Button>
              )}
              {may("sessions:create") && session.status === "active" && chosen.form === "call" && checkpointAt(points.data, chosen.seq - 1)?.snapshot && (
                <Button onClick={() => setForkAt(chosen.seq - 1)}>Fork before this call</Button>
              )}
              <Button href={href(["sessions", session.id, "files"], { at: String(chosen.endSeq) })}>Files at this event</Button>
            </div>
          </EventDetail>
        ) : (
          <div class="detail stack">
            <Empty title="Choose a row">Move the slider or click a row to see its arguments, output and files.</Empty>
            <ForkTree session={session} />
          </div>
        )}
      </div>
      {question}
      {forkAt && <Fork session={session} at={forkAt} onClose={() => setForkAt(undefined)} />}
    </div>
  );
}

function filter(rows: Row[], only: string, words: string): Row[] {
  const wanted = words.trim().toLowerCase();
  return rows.filter((row) => {
    if (only === "call" && row.form !== "call") return false;
    if (only === "bad" && row.kind !== "bad") return false;
    if (only === "changed" && !row.events.some((event) => event["files"] && JSON.stringify(event["files"]).includes('"path"') || JSON.stringify(event["files"] ?? "").includes('"wrote"'))) return false;
    return !wanted || `${row.title} ${row.text} ${row.message}`.toLowerCase().includes(wanted);
  });
}

function CallRow({ row, from, to, current, onClick }: { row: Row; from: number; to: number; current: boolean; onClick: () => void }) {
  const share = (time: number) => Math.min(1, Math.max(0, (time - from) / (to - from)));
  const end = row.running ? to : row.start + (row.ms ?? 0);
  return (
    <div role="listitem">
      <button
        type="button"
        class={`call-row ${row.form === "group" ? "group" : ""}`}
        aria-current={current ? "true" : undefined}
        onClick={onClick}
        title={row.message || row.text}
      >
        <span class="seq">{row.seq}</span>
        <span class={`mark ${row.kind}`} aria-hidden="true">
          {MARKS[row.kind]}
        </span>
        <span class="title cut" style={{ paddingLeft: `${row.depth * 12}px` }}>
          <b>{row.title}</b>
          <span>{row.text}</span>
          {row.kind === "bad" && <span class="hidden-text">failed</span>}
        </span>
        <span class="track">
          {row.form !== "group" && (
            <span class={`bar ${row.kind}`} style={{ left: `${share(row.start) * 96}%`, width: `${(share(end) - share(row.start)) * 96}%` }} />
          )}
        </span>
        <span class="muted right nowrap">{row.running ? "running" : row.ms === undefined ? clock(row.start) : duration(row.ms)}</span>
      </button>
    </div>
  );
}

/** The checkpoint that holds the files after an event: the latest one at or before it. */
function checkpointAt(points: Schemas["Moments"] | undefined, seq: number): Schemas["Moment"] | undefined {
  return points?.items.findLast((item) => item.seq <= seq);
}

function Checkpoint({ moment, points }: { moment?: Schemas["Moment"]; points?: Schemas["Moments"] }) {
  if (!points) return null;
  if (!moment) return <Notice kind="idle">The files at this event are not kept: it is before the first checkpoint, or older than the last {points.keep}.</Notice>;
  if (!moment.snapshot) return <NotKept seq={moment.seq} reason={moment.reason} points={points} />;
  return null;
}

/** The session that this one is a clone of, and its own clones. */
function ForkTree({ session }: { session: Session }) {
  const found = useResource((signal) => get("/api/v1/sessions", { query: { q: session.id, limit: 200 }, signal }), [session.id, session.seq]);
  const clones = (found.data?.items ?? []).filter((one) => one.cloned_from === session.id);
  const parent = session.cloned_from;
  if (found.error) return <Failure error={found.error} />;
  if (!parent && !clones.length) return null;
  const line = (id: string, depth: number, status: string) => (
    <div class="tree-line" key={id} style={{ paddingLeft: `${depth * 18}px` }}>
      <span class="muted" aria-hidden="true">{depth ? "└" : "●"}</span>
      {id === session.id ? <strong>{shortId(id)}</strong> : <a href={href(["sessions", id])}>{shortId(id)}</a>}
      <span class="muted">{status}</span>
    </div>
  );
  const ids = [...(parent ? [parent] : []), session.id, ...clones.map((one) => one.id)].slice(0, 4);
  return (
    <div class="stack">
      <h3>Forks</h3>
      <div>
        {parent && line(parent, 0, "")}
        {line(session.id, parent ? 1 : 0, "this session")}
        {clones.map((one) => line(one.id, parent ? 2 : 1, one.status))}
      </div>
      <div>
        <Button small href={href(["compare"], { ids: ids.join(",") })}>Compare them</Button>
      </div>
    </div>
  );
}
