/** The frame: sign-in, navigation, and the screen of the route. */
import { useEffect, useState } from "preact/hooks";
import { get, onSignedOut, Refusal, type Schemas, send } from "./api/client";
import iconUrl from "./icon.svg?url";
import { href, navigate, useRoute, type Route } from "./router";
import { AgentTypes } from "./screens/agent-types";
import { Compare } from "./screens/compare";
import { Operations } from "./screens/operations";
import { Projects } from "./screens/projects";
import { SessionScreen } from "./screens/session";
import { Sessions } from "./screens/sessions";
import { currentTheme, setTheme, type Theme } from "./theme";
import { Button, Failure, Loading, Select } from "./ui/basics";
import { Icon } from "./ui/icons";

export type Who = Schemas["Whoami"];

export function App() {
  const [who, setWho] = useState<Who | "out" | undefined>();
  const [error, setError] = useState<Error>();
  const route = useRoute();
  const code = route.parts[0] === "sign-in" ? route.parts[1] : undefined;

  useEffect(() => onSignedOut(() => setWho("out")), []);
  useEffect(() => {
    async function start() {
      setError(undefined);
      if (code) {
        const target = route.query.get("to") ?? "/sessions";
        // The link works once. It must not stay in the history.
        history.replaceState(null, "", "#/sessions");
        await send("/sign-in", {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ code }),
        });
        setWho(await get("/api/v1/whoami"));
        navigate(target.startsWith("/") ? target : "/sessions");
        // The address may already be the target, and then the browser reports no change.
        dispatchEvent(new HashChangeEvent("hashchange"));
        return;
      }
      if (who === undefined) setWho(await get("/api/v1/whoami"));
    }
    start().catch((failure: Error) => {
      if (failure instanceof Refusal && failure.status === 401) setWho("out");
      if (code || !(failure instanceof Refusal) || failure.status !== 401) setError(failure);
    });
  }, [code]);

  if (who === "out") return <SignedOut error={error} />;
  if (!who) return error ? <SignedOut error={error} /> : <Loading />;
  return <Frame who={who} route={route} onOut={() => setWho("out")} />;
}

function SignedOut({ error }: { error?: Error }) {
  return (
    <div class="center">
      <main class="card stack">
        <div class="brand">
          <img src={iconUrl} alt="" />
          Stead
        </div>
        <h1>Sign in</h1>
        {error && <Failure error={error} />}
        <p>This browser is not signed in. In a terminal, on the machine whose token you use, run</p>
        <pre class="box">stead open</pre>
        <p class="muted">It prints a link that works once. The page keeps no token: the browser gets a cookie that scripts cannot read.</p>
      </main>
    </div>
  );
}

const SCREENS = [
  { id: "sessions", label: "Sessions", icon: "sessions" },
  { id: "compare", label: "Compare", icon: "compare" },
  { id: "agent-types", label: "Agent types", icon: "types" },
  { id: "projects", label: "Projects", icon: "projects" },
  { id: "operations", label: "Operations", icon: "operations" },
] as const;

function Frame({ who, route, onOut }: { who: Who; route: Route; onOut: () => void }) {
  const [theme, choose] = useState<Theme>(currentTheme());
  const current = route.parts[0] ?? "sessions";
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to content
      </a>
      <div class="side">
        <a class="brand" href={href(["sessions"])}>
          <img src={iconUrl} alt="" />
          Stead
        </a>
        <nav aria-label="Screens">
          {SCREENS.map((screen) => (
            <a key={screen.id} href={href([screen.id])} aria-current={current === screen.id ? "page" : undefined}>
              <Icon name={screen.icon} />
              {screen.label}
            </a>
          ))}
        </nav>
        <div class="foot">
          <Select
            label="Colours"
            value={theme}
            options={[["system", "System colours"], ["light", "Light"], ["dark", "Dark"]]}
            onChange={(value) => {
              setTheme(value as Theme);
              choose(value as Theme);
            }}
          />
          <div class="cut" title={who.actor}>{who.actor}</div>
          <div class="muted">{who.role}{who.project ? ` in ${who.project}` : ""}</div>
          <Button
            small
            onClick={() => void send("/sign-out", { method: "POST" }).finally(onOut)}
          >
            Sign out
          </Button>
        </div>
      </div>
      <main id="main" tabIndex={-1}>
        <Screen who={who} route={route} />
      </main>
    </div>
  );
}

function Screen({ who, route }: { who: Who; route: Route }) {
  const [screen = "sessions", id] = route.parts;
  useEffect(() => {
    const label = SCREENS.find((one) => one.id === screen)?.label ?? "Stead";
    document.title = id ? `${id.slice(0, 16)} · ${label} · Stead` : `${label} · Stead`;
  }, [screen, id]);
  if (screen === "sessions" && id) return <SessionScreen key={id} id={id} who={who} route={route} />;
  if (screen === "compare") return <Compare route={route} />;
  if (screen === "agent-types") return <AgentTypes key={id ?? ""} id={id} who={who} />;
  if (screen === "projects") return <Projects key={id ?? ""} id={id} who={who} />;
  if (screen === "operations") return <Operations part={id} who={who} route={route} />;
  return <Sessions who={who} route={route} />;
}

