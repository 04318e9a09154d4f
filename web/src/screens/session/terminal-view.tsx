/** One terminal: xterm.js on the output stream and the standard input of an exec. */
import "../../ui/style-policy";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../../api/client";
import { openStream } from "../../api/stream";
import { chunkBytes } from "./execs";

export function TerminalView({ session, exec, readOnly, onEnd }: { session: string; exec: string; readOnly: boolean; onEnd: () => void }) {
  const element = useRef<HTMLDivElement>(null);
  const [note, setNote] = useState("");

  useEffect(() => {
    const path = { id: session, exec };
    const terminal = new Terminal({
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
      fontSize: 13,
      cursorBlink: true,
      disableStdin: readOnly,
      scrollback: 5000,
      screenReaderMode: true,
      theme: { background: "#0e1116", foreground: "#e4e8f0", cursor: "#8ea6ff" },
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(element.current!);
    const resize = () => {
      fit.fit();
      if (!readOnly) void post("/api/v1/sessions/{id}/execs/{exec}/resize", { path, body: { rows: terminal.rows, columns: terminal.cols } }).catch(() => undefined);
    };
    const observer = new ResizeObserver(() => requestAnimationFrame(resize));
    observer.observe(element.current!);
    terminal.focus();

    // Keys are sent one request after the other, so that they arrive in order.
    let waiting = "";
    let sending = false;
    async function flush() {
      if (sending) return;
      sending = true;
      while (waiting) {
        const data = waiting;
        waiting = "";
        try {
          await post("/api/v1/sessions/{id}/execs/{exec}/stdin", { path, body: { data } });
        } catch (error) {
          setNote((error as Error).message);
        }
      }
      sending = false;
    }
    const typed = terminal.onData((data) => {
      waiting += data;
      void flush();
    });

    const stream = openStream({
      after: "0",
      address: (after) => `/api/v1/sessions/${session}/execs/${exec}/stream?after=${after}`,
      onEvent: (event) => {
        if (event.event === "output") terminal.write(chunkBytes(JSON.parse(event.data)));
        if (event.event === "missed") terminal.write("\r\n[some output is lost]\r\n");
        if (event.event === "finished") {
          stream.close();
          terminal.write("\r\n[ended]\r\n");
          onEnd();
        }
      },
      onState: (state, why) => setNote(state === "lost" ? `${why ?? "The connection is lost."} Connecting again…` : ""),
    });
    return () => {
      stream.close();
      observer.disconnect();
      typed.dispose();
      terminal.dispose();
    };
  }, [session, exec]);

  return (
    <>
      {note && <div class="notice warn" role="status">{note}</div>}
      <div class="terminal-box" ref={element} />
    </>
  );
}
