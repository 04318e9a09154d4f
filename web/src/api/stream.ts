/**
 * Server-sent events over `fetch`, because `EventSource` cannot send the page's header.
 *
 * A browser opens at most six connections to one server, so a stream is open only while its tab is
 * visible. It continues after the last event when the tab is shown again, and after a lost connection.
 */
import { Refusal, send } from "./client";

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

export interface Stream {
  close(): void;
}

interface Handlers {
  /** Address of the stream after the event with this id. */
  address: (after: string) => string;
  after: string;
  onEvent: (event: ServerEvent) => void;
  /** Called when the server ended the stream. Returns true to connect again. */
  onEnd?: () => boolean;
  onState?: (state: "open" | "lost", why?: string) => void;
}

const RETRY = 1000;

export function openStream(handlers: Handlers): Stream {
  let after = handlers.after;
  let closed = false;
  let abort: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function connect() {
    if (closed || abort || document.hidden) return;
    const current = (abort = new AbortController());
    try {
      const response = await send(handlers.address(after), {
        headers: { Accept: "text/event-stream" },
        signal: current.signal,
      });
      handlers.onState?.("open");
      await read(response, (event) => {
        if (closed) return;
        if (event.id) after = event.id;
        handlers.onEvent(event);
      });
      abort = undefined;
      if (!closed && (handlers.onEnd?.() ?? true)) timer = setTimeout(connect, RETRY);
    } catch (error) {
      if (abort === current) abort = undefined;
      if (closed || current.signal.aborted) return;
      handlers.onState?.("lost", error instanceof Error ? error.message : String(error));
      const final = error instanceof Refusal && [401, 403, 404, 410].includes(error.status);
      if (!final) timer = setTimeout(connect, RETRY);
    }
  }

  function onVisibility() {
    if (document.hidden) {
      abort?.abort();
      abort = undefined;
    } else {
      void connect();
    }
  }

  document.addEventListener("visibilitychange", onVisibility);
  void connect();
  return {
    close() {
      closed = true;
      clearTimeout(timer);
      abort?.abort();
      document.removeEventListener("visibilitychange", onVisibility);
    },
  };
}

async function read(response: Response, onEvent: (event: ServerEvent) => void): Promise<void> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    let end: number;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const event = parse(buffer.slice(0, end));
      buffer = buffer.slice(end + 2);
      if (event) onEvent(event);
    }
  }
}

function parse(block: string): ServerEvent | undefined {
  const event: ServerEvent = { id: "", event: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith(":")) continue;
    const colon = line.indexOf(":");
    const [field, value] = colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
    if (field === "data") data.push(value);
    else if (field === "id") event.id = value;
    else if (field === "event") event.event = value;
  }
  if (!data.length) return undefined;
  event.data = data.join("\n");
  return event;
}
