/** Projects and the platform: settings, secrets, quotas and use. */
import type { Who } from "../app";
import { del, get, put, type Schemas } from "../api/client";
import { useResource } from "../resource";
import { href, navigate } from "../router";
import { Badge, Button, Card, Empty, Failure, Loading, Meter, Table } from "../ui/basics";
import { useConfirm } from "../ui/dialog";
import { JsonForm } from "../ui/json-form";
import { parseSize } from "../format";
import { Secrets } from "./secrets";
import { useState } from "preact/hooks";

const PLATFORM = "+platform";

export function Projects({ id, who }: { id?: string; who: Who }) {
  if (id === PLATFORM) return <PlatformForm who={who} />;
  if (id) return <One id={id} who={who} />;
  return <All who={who} />;
}

function All({ who }: { who: Who }) {
  const projects = useResource((signal) => get("/api/v1/projects", { query: { limit: 500 }, signal }), []);
  const [name, setName] = useState("");
  return (
    <>
      <header class="top">
        <div class="grow"><h1>Projects</h1></div>
        {who.permissions.includes("platform:read") && !who.project && <Button href={href(["projects", PLATFORM])}>Platform settings</Button>}
      </header>
      <div class="content">
        {projects.error && <Failure error={projects.error} />}
        {projects.loading && <Loading />}
        <Card title="All projects">
          {projects.data?.items.length === 0 && <Empty title="No projects">Sessions can also belong to no project.</Empty>}
          {Boolean(projects.data?.items.length) && (
            <Table head={["Project", "Status"]} label="Projects">
              {projects.data!.items.map((project) => (
                <tr key={project.id}>
                  <td><a href={href(["projects", project.id])}>{project.id}</a></td>
                  <td><Badge status={project.status} /></td>
                </tr>
              ))}
            </Table>
          )}
          {who.permissions.includes("projects:manage") && !who.project && (
            <form class="row" onSubmit={(event) => { event.preventDefault(); if (name.trim()) navigate(href(["projects", name.trim()])); }}>
              <input value={name} onInput={(event) => setName(event.currentTarget.value)} placeholder="Name of a new project" aria-label="Name of a new project" />
              <Button type="submit">Open</Button>
            </form>
          )}
        </Card>
      </div>
    </>
  );
}

const EMPTY = { workspace_policy: null, repository_url: null, default_branch: null, env: {} };

function One({ id, who }: { id: string; who: Who }) {
  const path = { id };
  const project = useResource((signal) => get("/api/v1/projects/{id}", { path, signal }).catch((error) => { if (error.status === 404) return EMPTY as never; throw error; }), [id]);
  const usage = useResource((signal) => get("/api/v1/projects/{id}/usage", { path, signal }).catch(() => undefined), [id], 10_000);
  const quotas = useResource((signal) => get("/api/v1/projects/{id}/quotas", { path, signal }).catch(() => undefined), [id]);
  const [ask, question] = useConfirm();
  const mayWrite = who.permissions.includes("projects:write");
  if (project.error) return <div class="content"><Failure error={project.error} /></div>;
  if (!project.data) return <Loading />;
  const { deletion: _deletion, ...settings } = project.data as Schemas["ProjectView"];
  return (
    <>
      <header class="top">
        <div class="grow">
          <a href={href(["projects"])}>Projects</a>
          <span class="muted" aria-hidden="true">/</span>
          <h1>{id}</h1>
        </div>
        <Button href={href(["sessions"], { project: id })}>Sessions</Button>
        {who.permissions.includes("projects:manage") && !who.project && (
          <Button
            kind="danger"
            onClick={() =>
              ask({
                title: `Delete the project ${id}?`,
                text: "Its sessions are closed, and its agent types, content, images and tokens are removed. This cannot be undone.",
                action: "Delete project",
                run: () => del("/api/v1/projects/{id}", { path }).then(() => navigate(href(["projects"]))),
              })
            }
          >
            Delete
          </Button>
        )}
      </header>
      <div class="content">
        {usage.data && <Card title="Quotas against use"><Used usage={usage.data as never} /></Card>}
        <Secrets project={id} who={who} />
        <Card title="Settings">
          <JsonForm schema="Project" value={Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null))} readOnly={!mayWrite} save={(body) => put("/api/v1/projects/{id}", { path, body: body as never })} />
        </Card>
        {quotas.data && (
          <Card title="Quotas">
            <JsonForm schema="Quotas" value={quotas.data} readOnly={!who.permissions.includes("quotas:write")} save={(body) => put("/api/v1/projects/{id}/quotas", { path, body: body as never })} />
          </Card>
        )}
      </div>
      {question}
    </>
  );
}

/** One line per quantity, wherever the answer has a pair of used and limit. */
function Used({ usage }: { usage: Record<string, unknown> }) {
  const rows = Object.entries((usage["project"] ?? usage["total"] ?? usage) as Record<string, { used?: number | string; limit?: number | string | null }>).filter(
    ([, value]) => value && typeof value === "object" && "used" in value,
  );
  if (!rows.length) return <pre class="box">{JSON.stringify(usage, null, 2)}</pre>;
  return (
    <Table head={["Quantity", "Used", "Limit", ""]} label="Use of quotas">
      {rows.map(([name, value]) => (
        <tr key={name}>
          <td>{name}</td>
          <td>{String(value.used)}</td>
          <td>{value.limit === null || value.limit === undefined ? "none" : String(value.limit)}</td>
          <td style={{ width: "40%" }}>{value.limit ? <Meter label={name} value={parseSize(value.used) ?? 0} most={parseSize(value.limit) ?? 0} /> : null}</td>
        </tr>
      ))}
    </Table>
  );
}

function PlatformForm({ who }: { who: Who }) {
  const platform = useResource((signal) => get("/api/v1/platform", { signal }), []);
  if (platform.error) return <div class="content"><Failure error={platform.error} /></div>;
  if (!platform.data) return <Loading />;
  return (
    <>
      <header class="top">
        <div class="grow">
          <a href={href(["projects"])}>Projects</a>
          <span class="muted" aria-hidden="true">/</span>
          <h1>Platform</h1>
        </div>
      </header>
      <div class="content">
        <Card title="Settings of all sessions">
          <JsonForm schema="Platform" value={Object.fromEntries(Object.entries(platform.data).filter(([, value]) => value !== null))} readOnly={!who.permissions.includes("platform:write")} save={(body) => put("/api/v1/platform", { body: body as never })} />
        </Card>
      </div>
    </>
  );
}
