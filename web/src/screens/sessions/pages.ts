/** Pages of the session list: loads more while the user scrolls, and refreshes what is visible. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type Session } from "../../api/client";

const PAGE = 100;
const REFRESH = 3000;

interface Page {
  cursor?: string;
  items: Session[];
  next?: string;
}

export interface Pages {
  sessions: Session[];
  complete: boolean;
  loading: boolean;
  error?: Error;
  onRange: (from: number, to: number) => void;
  reload: () => void;
}

export function usePages(query: Record<string, string>): Pages {
  const [pages, setPages] = useState<Page[]>([]);
  const [loading, setLoading] = useState(true);
  const [error, setError] = useState<Error>();
  const current = useRef({ pages, query, busy: false, from: 0, to: 0, turn: 0 });
  current.current.pages = pages;
  const key = JSON.stringify(query);

  const fetchPage = useCallback(async (cursor?: string): Promise<Page> => {
    const list = await get("/api/v1/sessions", { query: { ...current.current.query, limit: String(PAGE), cursor } as never });
    return { cursor, items: list.items, next: list.next_cursor ?? undefined };
  }, []);

  /** Loads the first page again, and the pages that are visible. */
  const refresh = useCallback(async () => {
    const state = current.current;
    if (document.hidden || state.busy) return;
    state.busy = true;
    const turn = state.turn;
    try {
      const first = await fetchPage();
      if (turn !== state.turn) return;
      let next = merge(state.pages, first);
      const [low, high] = [Math.floor(state.from / PAGE), Math.floor(Math.max(state.from, state.to - 1) / PAGE)];
      for (let index = Math.max(1, low); index <= high && index < next.length; index += 1) {
        const page = await fetchPage(next[index]!.cursor);
        if (turn !== state.turn) return;
        next = next.map((old, at) => (at === index ? page : old));
      }
      setPages(next);
      setError(undefined);
    } catch (failure) {
      if (turn === state.turn) setError(failure as Error);
    } finally {
      if (turn === state.turn) {
        state.busy = false;
        setLoading(false);
      }
    }
  }, []);

  useEffect(() => {
    const state = current.current;
    Object.assign(state, { query, busy: false, turn: state.turn + 1, pages: [] });
    setPages([]);
    setLoading(true);
    void refresh();
    const timer = setInterval(() => void refresh(), REFRESH);
    return () => clearInterval(timer);
  }, [key]);

  const onRange = useCallback((from: number, to: number) => {
    const state = current.current;
    Object.assign(state, { from, to });
    const last = state.pages.at(-1);
    const loaded = state.pages.reduce((sum, page) => sum + page.items.length, 0);
    if (!last?.next || state.busy || to < loaded - 40) return;
    state.busy = true;
    const turn = state.turn;
    fetchPage(last.next)
      .then((page) => turn === state.turn && setPages((old) => [...old, page]))
      .catch((failure: Error) => setError(failure))
      .finally(() => turn === state.turn && (state.busy = false));
  }, []);

  const sessions = pages.length === 1 ? pages[0]!.items : unique(pages);
  return { sessions, complete: !pages.at(-1)?.next, loading, error, onRange, reload: () => void refresh() };
}

/** New sessions move the page borders. Keep the older pages unless the first page has all. */
function merge(old: Page[], first: Page): Page[] {
  if (old.length <= 1 || !first.next) return [first];
  return [first, ...old.slice(1)];
}

function unique(pages: Page[]): Session[] {
  const seen = new Set<string>();
  const all: Session[] = [];
  for (const page of pages) {
    for (const session of page.items) {
      if (seen.has(session.id)) continue;
      seen.add(session.id);
      all.push(session);
    }
  }
  return all;
}
