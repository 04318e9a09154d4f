/** The server: providers, storage, audit log, secrets, tokens, use and metrics. */
import type { Who } from "../app";
import { lazy } from "../lazy";
import { href, type Route } from "../router";
import { Tabs } from "../ui/basics";
import { Secrets } from "./secrets";
import { Audit } from "./operations/audit";
import { Content } from "./operations/content";
import { Providers } from "./operations/providers";
import { Storage } from "./operations/storage";
import { Tokens } from "./operations/tokens";

const Metrics = lazy(() => import("./operations/metrics").then((module) => module.Metrics));

const PARTS: { id: string; label: string; permission: string }[] = [
  { id: "providers", label: "Providers", permission: "server:read" },
  { id: "storage", label: "Images and disk", permission: "images:read" },
  { id: "content", label: "Content", permission: "content:read" },
  { id: "audit", label: "Audit", permission: "audit:read" },
  { id: "secrets", label: "Secrets", permission: "secrets:read" },
  { id: "tokens", label: "Tokens", permission: "tokens:read" },
  { id: "metrics", label: "Use and metrics", permission: "usage:read" },
];

export function Operations({ part, who, route }: { part?: string; who: Who; route: Route }) {
  const allowed = PARTS.filter((one) => who.permissions.includes(one.permission as never));
  const current = part ?? allowed[0]?.id ?? "providers";
  return (
    <>
      <header class="top">
        <div class="grow">
          <h1>Operations</h1>
        </div>
      </header>
      <div class="content">
        <Tabs current={current} tabs={allowed.map((one) => ({ id: one.id, label: one.label, href: href(["operations", one.id]) }))} />
        {current === "providers" && <Providers who={who} />}
        {current === "storage" && <Storage who={who} />}
        {current === "content" && <Content route={route} />}
        {current === "audit" && <Audit route={route} />}
        {current === "secrets" && <Secrets who={who} />}
        {current === "tokens" && <Tokens who={who} />}
        {current === "metrics" && <Metrics who={who} />}
      </div>
    </>
  );
}
