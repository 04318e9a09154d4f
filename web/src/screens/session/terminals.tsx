/** Terminals in the box: the same kind of exec as `stead shell`, several at once. */
import { useState } from "preact/hooks";
import { del, get, post, type Schemas, type Session } from "../../api/client";
import { lazy } from "../../lazy";
import { useResource } from "../../resource";
import { href, navigate, type Route } from "../../router";
import { Button, Empty, Failure } from "../../ui/basics";

const TerminalView = lazy(() => import("./terminal-view").then((module) => module.TerminalView));
type Exec = Schemas["Exec"];

export function Terminals({ session, mayUse, route }: { session: Session; mayUse: boolean; route: Route }) {
  const path = { id: session.id };
  const execs = useResource((signal) => get("/api/v1/sessions/{id}/execs", { path, signal }), [session.id], 4000);
  const [error, setError] = useState<Error>();
  const open = (execs.data?.items ?? []).filter((exec) => exec.pty && exec.status === "running");
  const current = route.query.get("exec") ?? open.at(-1)?.id;
  const show = (exec: string) => navigate(href(["sessions", session.id, "terminal"], { exec }));

  function start() {
    setError(undefined);
    post("/api/v1/sessions/{id}/execs", {
      path,
      body: { argv: ["/bin/bash", "-i"], background: true, stdin: true, pty: { rows: 30, columns: 100 }, env: { TERM: "xterm-256color" } },
    }).then((exec) => {
      execs.reload();
      show((exec as Exec).id);
    }, setError);
  }

  if (!session.workspace || session.workspace.provider === "memory") {
    return <Empty title="No terminal">A workspace in memory runs no programs.</Empty>;
  }
  return (
    <div class="panel grow">
      <div class="terminal-tabs">
        {open.map((exec, index) => (
          <Button key={exec.id} small pressed={exec.id === current} onClick={() => show(exec.id)}>
            {index + 1}: {exec.command ?? exec.argv[0]}
          </Button>
        ))}
        {mayUse && session.status === "active" && (
          <Button small kind="primary" onClick={start}>
            New terminal
          </Button>
        )}
        <span class="grow" />
        {current && open.some((exec) => exec.id === current) && (
          <>
            <code class="muted">stead shell {session.id} --attach {current}</code>
            <Button small kind="danger" onClick={() => void del("/api/v1/sessions/{id}/execs/{exec}", { path: { ...path, exec: current } }).finally(execs.reload)}>
              End
            </Button>
          </>
        )}
      </div>
      {error && <Failure error={error} />}
      {execs.error && <Failure error={execs.error} />}
      {current ? (
        <TerminalView key={current} session={session.id} exec={current} readOnly={!mayUse} onEnd={execs.reload} />
      ) : (
        <Empty title="No terminal is open">{mayUse ? "Open one. It keeps running when you leave the page." : "Your token may not open one."}</Empty>
      )}
    </div>
  );
}
