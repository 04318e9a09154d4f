/** The files of a session: tree, view, edit, upload, download, changes and blame. */
import { useEffect, useState } from "preact/hooks";
import { del, get, Refusal, type Schemas, send, type Session, url } from "../../api/client";
import { bytes, when } from "../../format";
import { lazy } from "../../lazy";
import { useResource } from "../../resource";
import { href, navigate, type Route } from "../../router";
import { Button, Empty, Failure, Loading } from "../../ui/basics";
import { useConfirm } from "../../ui/dialog";
import { DiffView } from "../../ui/diff-view";
import { NotKept } from "./not-kept";

const Editor = lazy(() => import("./editor").then((module) => module.Editor));
type Entry = Schemas["FileEntry"];

/** Larger files are only downloaded. */
const MOST_SHOWN = 2 << 20;

export function Files({ session, mayUse, route }: { session: Session; mayUse: boolean; route: Route }) {
  const path = route.query.get("path") ?? undefined;
  const view = route.query.get("view") ?? (path ? "file" : "changes");
  const at = Number(route.query.get("at") ?? 0) || undefined;
  const [turn, setTurn] = useState(0);
  const [error, setError] = useState<Error>();
  const live = session.status === "active";
  const go = (query: Record<string, string | undefined>) => navigate(href(["sessions", session.id, "files"], query));

  async function upload(list: FileList | null, folder: string) {
    setError(undefined);
    try {
      for (const file of list ?? []) {
        const target = folder ? `${folder}/${file.name}` : file.name;
        await send(url("/api/v1/sessions/{id}/files/{path}", { id: session.id, path: target }), { method: "PUT", body: file, headers: { "Content-Type": "application/octet-stream" } });
      }
      setTurn((n) => n + 1);
    } catch (failure) {
      setError(failure as Error);
    }
  }

  if (!session.workspace) return <Empty title="No files">This session has no workspace.</Empty>;
  return (
    <div class="files">
      <div class="panel">
        <div class="slider">
          <label class="button small">
            Upload
            <input class="hidden-text" type="file" multiple disabled={!mayUse || !live} onChange={(event) => void upload(event.currentTarget.files, "")} />
          </label>
          <Button small href={`/api/v1/sessions/${session.id}/export?format=tar`} download={`${session.id}.tar`}>
            All as tar
          </Button>
        </div>
        {live ? (
          <div class="tree" aria-label="Files" role="region" tabIndex={0}>
            <Folder session={session.id} path="" current={path} onOpen={(target) => go({ path: target })} turn={turn + session.seq} depth={0} />
          </div>
        ) : (
          <Empty title={`The session is ${session.status}`}>Its files can be read while it is active.</Empty>
        )}
      </div>
      <div class="panel">
        <div class="slider">
          <Button small pressed={view === "changes"} onClick={() => go({ path, view: "changes" })}>
            Changes
          </Button>
          {path && (
            <Button small pressed={view === "file"} onClick={() => go({ path })}>
              {path}
            </Button>
          )}
          <span class="grow" />
          {view === "changes" && (
            <Button small href={`/api/v1/sessions/${session.id}/export?format=patch`} download={`${session.id}.patch`}>
              Download patch
            </Button>
          )}
        </div>
        {error && <Failure error={error} />}
        {view === "changes" ? (
          <Changes session={session} at={at} onAt={(seq) => go({ view: "changes", at: seq ? String(seq) : undefined })} />
        ) : (
          path && <OneFile key={path} session={session} path={path} mayUse={mayUse && live} onSaved={() => setTurn((n) => n + 1)} onGone={() => { setTurn((n) => n + 1); go({}); }} />
        )}
      </div>
    </div>
  );
}

function Folder({ session, path, current, onOpen, turn, depth }: { session: string; path: string; current?: string; onOpen: (path: string) => void; turn: number; depth: number }) {
  const [open, setOpen] = useState<Set<string>>(new Set());
  const listing = useResource(
    async (signal) => {
      const found = path
        ? await get("/api/v1/sessions/{id}/files/{path}", { path: { id: session, path }, signal })
        : await get("/api/v1/sessions/{id}/files", { path: { id: session }, signal });
      return found as Schemas["Directory"];
    },
    [session, path, turn],
  );
  // The old entries stay while the folder is read again.
  const [entries, setEntries] = useState<Entry[]>();
  useEffect(() => {
    if (listing.data) setEntries([...listing.data.entries].sort(order));
  }, [listing.data]);
  if (listing.error && !entries) return <Failure error={listing.error} />;
  if (!entries) return <div class="loading">…</div>;
  if (!entries.length && depth === 0) return <Empty title="Empty" />;
  return (
    <div role="group">
      {entries.map((entry) => {
        const name = entry.path.split("/").filter(Boolean).at(-1) ?? entry.path;
        const full = path ? `${path}/${name}` : name;
        const folder = entry.kind === "directory";
        const opened = open.has(full);
        return (
          <div key={entry.path}>
            <button
              type="button"
              aria-expanded={folder ? opened : undefined}
              aria-current={full === current ? "true" : undefined}
              style={{ paddingLeft: `${6 + depth * 14}px` }}
              onClick={() => {
                if (!folder) return onOpen(full);
                setOpen((old) => {
                  const next = new Set(old);
                  if (!next.delete(full)) next.add(full);
                  return next;
                });
              }}
            >
              <span aria-hidden="true">{folder ? (opened ? "▾" : "▸") : " "}</span>
              <span class="cut">{name}</span>
              {!folder && <span class="size">{bytes(entry.size)}</span>}
            </button>
            {opened && <Folder session={session} path={full} current={current} onOpen={onOpen} turn={turn} depth={depth + 1} />}
          </div>
        );
      })}
    </div>
  );
}

const order = (a: Entry, b: Entry) =>
  Number(b.kind === "directory") - Number(a.kind === "directory") || a.path.localeCompare(b.path);

function OneFile({ session, path, mayUse, onSaved, onGone }: { session: Session; path: string; mayUse: boolean; onSaved: () => void; onGone: () => void }) {
  const address = url("/api/v1/sessions/{id}/files/{path}", { id: session.id, path });
  const [text, setText] = useState<string>();
  const [error, setError] = useState<Error>();
  const [saved, setSaved] = useState("");
  const [ask, question] = useConfirm();
  const file = useResource(
    async (signal) => {
      const response = await send(address, { signal, headers: { Accept: "application/octet-stream" } });
      const size = Number(response.headers.get("content-length") ?? 0);
      const etag = response.headers.get("etag") ?? undefined;
      if (size > MOST_SHOWN) {
        await response.body?.cancel();
        return { size, etag, text: undefined };
      }
      const content = new Uint8Array(await response.arrayBuffer());
      return { size: content.length, etag, text: content.includes(0) ? undefined : new TextDecoder().decode(content) };
    },
    [session.id, path],
  );
  const blame = useResource((signal) => get("/api/v1/sessions/{id}/blame/{path}", { path: { id: session.id, path }, signal }), [session.id, path, session.seq]);
  const changed = text !== undefined && text !== file.data?.text;

  async function save() {
    setError(undefined);
    try {
      const response = await send(address, {
        method: "PUT",
        body: text,
        headers: { "Content-Type": "application/octet-stream", ...(file.data?.etag ? { "If-Match": file.data.etag } : {}) },
      });
      const placed = (await response.json()) as { hash?: string };
      file.set({ size: new TextEncoder().encode(text).length, etag: response.headers.get("etag") ?? (placed.hash ? `"${placed.hash}"` : undefined), text });
      setSaved(`Saved at ${new Date().toLocaleTimeString()}`);
      onSaved();
    } catch (failure) {
      const stale = failure instanceof Refusal && failure.status === 412;
      setError(stale ? new Error("The file was changed since you opened it. Copy your text, then open the file again.") : (failure as Error));
    }
  }

  if (file.error) return <Failure error={file.error} />;
  if (!file.data) return <Loading />;
  const last = blame.data?.last;
  return (
    <>
      <div class="slider">
        <span class="muted">{bytes(file.data.size)}</span>
        {last && (
          <a class="cut" href={href(["sessions", last.session, "timeline"], { at: String(last.seq) })} title={when(last.at)}>
            {last.what} by {last.by.name} ({last.by.kind}), event {last.seq}
          </a>
        )}
        <span class="grow muted" role="status">{saved}</span>
        <Button small href={address} download={path.split("/").at(-1)}>
          Download
        </Button>
        {mayUse && (
          <Button
            small
            kind="danger"
            onClick={() =>
              ask({
                title: "Delete this file?",
                text: <code>{path}</code>,
                action: "Delete",
                run: () => del("/api/v1/sessions/{id}/files/{path}", { path: { id: session.id, path } }).then(onGone),
              })
            }
          >
            Delete
          </Button>
        )}
        {mayUse && file.data.text !== undefined && (
          <Button small kind="primary" disabled={!changed} onClick={() => void save()}>
            Save
          </Button>
        )}
      </div>
      {error && <Failure error={error} />}
      {file.data.text === undefined ? (
        <Empty title="Not shown">{file.data.size > MOST_SHOWN ? "The file is large. Download it to see it." : "The file is binary. Download it to see it."}</Empty>
      ) : (
        <Editor text={file.data.text} path={path} readOnly={!mayUse} onChange={setText} onSave={() => void save()} />
      )}
      {question}
    </>
  );
}

/** The changes since the start of the session, as they are now or were after an event. */
function Changes({ session, at, onAt }: { session: Session; at?: number; onAt: (seq?: number) => void }) {
  const points = useResource((signal) => get("/api/v1/sessions/{id}/rewind", { path: { id: session.id }, signal }), [session.id, session.seq]);
  const moment = at ? points.data?.items.findLast((item) => item.seq <= at) : undefined;
  const kept = !at || Boolean(moment?.snapshot);
  const diff = useResource(
    async (signal) => (kept ? ((await get("/api/v1/sessions/{id}/diff", { path: { id: session.id }, query: { format: "json", ...(at ? { at } : {}) }, signal })) as Schemas["Diff"]) : undefined),
    [session.id, at ?? session.seq, kept],
  );
  const items = points.data?.items ?? [];
  const position = at ? items.findLastIndex((item) => item.seq <= at) : items.length;
  return (
    <>
      {items.length > 0 && (
        <div class="slider">
          <span class="muted">Changes {at ? `after event ${at}` : "now"}</span>
          <input
            type="range"
            aria-label="Checkpoint"
            min={0}
            max={items.length}
            value={position}
            onInput={(event) => {
              const chosen = items[Number(event.currentTarget.value)];
              onAt(chosen?.seq);
            }}
          />
          {at && (
            <Button small onClick={() => onAt()}>
              Now
            </Button>
          )}
          {moment?.by && <span class="muted cut">{moment.by.name}</span>}
        </div>
      )}
      {!kept && points.data && (
        <NotKept seq={at!} reason={moment?.reason ?? null} points={points.data} />
      )}
      {diff.error && <Failure error={diff.error} />}
      {diff.loading && !diff.data && kept && <Loading what="Comparing" />}
      {diff.data && (diff.data.changed.length ? <DiffView diff={diff.data} link={(path) => href(["sessions", session.id, "files"], { path })} /> : <Empty title="No changes">Nothing differs from the start of the session.</Empty>)}
    </>
  );
}
