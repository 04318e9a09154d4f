/** Data that a screen loads, with its failure and, on request, a refresh at intervals. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Resource<T> {
  data?: T;
  error?: Error;
  loading: boolean;
  reload: () => void;
  set: (data: T) => void;
}

export function useResource<T>(
  load: (signal: AbortSignal) => Promise<T>,
  inputs: unknown[],
  every?: number,
): Resource<T> {
  const [state, setState] = useState<{ data?: T; error?: Error; loading: boolean }>({ loading: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const key = JSON.stringify(inputs);
  const lastKey = useRef(key);

  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (lastKey.current !== key) setState({ loading: true });
    lastKey.current = key;
    async function run() {
      if (!document.hidden || turn === 0) {
        try {
          const data = await latest.current(abort.signal);
          if (abort.signal.aborted) return;
          setState({ data, loading: false });
        } catch (error) {
          if (abort.signal.aborted) return;
          setState((old) => ({ data: old.data, error: error as Error, loading: false }));
        }
      }
      if (every && !abort.signal.aborted) timer = setTimeout(run, every);
    }
    void run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, turn, every]);

  const reload = useCallback(() => setTurn((n) => n + 1), []);
  const set = useCallback((data: T) => setState({ data, loading: false }), []);
  return { ...state, reload, set };
}
