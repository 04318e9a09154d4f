/** The journal of a session: its latest events, then new ones as they happen. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import { openStream } from "../../api/stream";

export type JournalEvent = { seq: number; at: string; type: string } & Record<string, unknown>;

export interface Journal {
  /** Events in order, without a gap. */
  events: JournalEvent[];
  /** Sequence number of the last event that is known. */
  last: number;
  ready: boolean;
  lost: boolean;
  error?: Error;
  /** Loads the page of events before the first one. */
  loadEarlier: () => void;
  /** Loads earlier pages until this event is there. */
  loadTo: (seq: number) => void;
}

const PAGE = 500;
/** Number of events that are loaded at first. */
const FIRST = 1000;

export function useJournal(id: string, seq: number | undefined): Journal {
  const [events, setEvents] = useState<JournalEvent[]>([]);
  const [state, setState] = useState<{ ready: boolean; lost: boolean; error?: Error }>({ ready: false, lost: false });
  const store = useRef<{ events: JournalEvent[]; frame?: number; loading: boolean }>({ events: [], loading: false });
  const known = seq !== undefined;

  const show = useCallback(() => {
    const current = store.current;
    if (current.frame !== undefined) return;
    // Many events may arrive at once; they are shown together.
    current.frame = window.setTimeout(() => {
      current.frame = undefined;
      setEvents(current.events);
    }, 60);
  }, []);

  const page = useCallback(
    async (after: number, limit: number): Promise<JournalEvent[]> => {
      const list = await get("/api/v1/sessions/{id}/events", { path: { id }, query: { after, limit } });
      return list.items as unknown as JournalEvent[];
    },
    [id],
  );

  useEffect(() => {
    if (!known) return;
    let closed = false;
    let stream: { close(): void } | undefined;
    async function start() {
      let after = Math.max(0, seq! - FIRST);
      for (;;) {
        const items = await page(after, PAGE);
        if (closed) return;
        store.current.events = [...store.current.events, ...items];
        after = items.at(-1)?.seq ?? after;
        show();
        if (items.length < PAGE) break;
      }
      setState({ ready: true, lost: false });
      stream = openStream({
        after: String(after),
        address: (last) => `/api/v1/sessions/${encodeURIComponent(id)}/events?after=${last}`,
        onEvent: (event) => {
          if (!/^\d+$/.test(event.id)) return;
          const recorded = JSON.parse(event.data) as JournalEvent;
          const { events } = store.current;
          if (recorded.seq <= (events.at(-1)?.seq ?? 0)) return;
          store.current.events = [...events, recorded];
          show();
        },
        onState: (connection) => setState((old) => ({ ...old, lost: connection === "lost" })),
      });
    }
    start().catch((error: Error) => !closed && setState({ ready: true, lost: false, error }));
    return () => {
      closed = true;
      stream?.close();
      clearTimeout(store.current.frame);
      store.current = { events: [], loading: false };
    };
  }, [id, known]);

  const earlier = useCallback(async (target: number) => {
    const current = store.current;
    if (current.loading) return;
    current.loading = true;
    try {
      let first = current.events[0]?.seq ?? 1;
      while (first > Math.max(1, target)) {
        const after = Math.max(0, first - 1 - PAGE);
        const items = (await page(after, Math.min(PAGE, first - 1 - after))).filter((event) => event.seq < first);
        if (!items.length) break;
        store.current.events = [...items, ...store.current.events];
        first = items[0]!.seq;
        show();
      }
    } finally {
      current.loading = false;
    }
  }, [page]);

  return {
    events,
    last: events.at(-1)?.seq ?? 0,
    ...state,
    loadEarlier: () => void earlier((store.current.events[0]?.seq ?? 1) - PAGE),
    loadTo: (target) => void earlier(target),
  };
}
