/** Agent types: the list, and a form with the schema's help and a preview of the plan. */
import { useState } from "preact/hooks";
import type { Who } from "../app";
import { del, get, post, put, type Schemas } from "../api/client";
import { useResource } from "../resource";
import { href, navigate } from "../router";
import { Ago, Button, Card, Empty, Failure, Loading, Table } from "../ui/basics";
import { useConfirm } from "../ui/dialog";
import { JsonForm } from "../ui/json-form";
import { PlanView } from "./sessions/plan-view";

const NEW = "+new";
type Declaration = Schemas["AgentTypeDeclaration"];

export function AgentTypes({ id, who }: { id?: string; who: Who }) {
  const mayWrite = who.permissions.includes("agent_types:write");
  if (id) return <One id={id} mayWrite={mayWrite} />;
  return <All mayWrite={mayWrite} />;
}

function All({ mayWrite }: { mayWrite: boolean }) {
  const types = useResource((signal) => get("/api/v1/agent-types", { query: { limit: 500 }, signal }), []);
  return (
    <>
      <header class="top">
        <div class="grow">
          <h1>Agent types</h1>
        </div>
        {mayWrite && <Button kind="primary" href={href(["agent-types", NEW])}>New agent type</Button>}
      </header>
      <div class="content">
        {types.error && <Failure error={types.error} />}
        {types.loading && <Loading />}
        {types.data?.items.length === 0 && <Empty title="No agent types">Declare one to create sessions.</Empty>}
        {Boolean(types.data?.items.length) && (
          <Card>
            <Table head={["Id", "Name", "Provider", "Policy", "Tools", "Changed"]} label="Agent types">
              {types.data!.items.map((type) => (
                <tr key={`${type.project}/${type.id}`}>
                  <td><a href={href(["agent-types", type.id])}>{type.id}</a> {type.project && <span class="muted">in {type.project}</span>}</td>
                  <td>{type.name} <div class="muted">{type.description}</div></td>
                  <td>{type.workspace.enabled === false ? "no workspace" : (type.workspace.provider ?? "default")}</td>
                  <td><code>{policyText(type.workspace.workspace_policy)}</code></td>
                  <td class="muted">{type.workspace.tools?.join(" ")}</td>
                  <td class="nowrap"><Ago time={type.updated_at} /></td>
                </tr>
              ))}
            </Table>
          </Card>
        )}
      </div>
    </>
  );
}

function policyText(policy: Schemas["WorkspacePolicy"] | null | undefined): string {
  if (!policy) return "–";
  return typeof policy === "string" ? policy : JSON.stringify(policy);
}

function One({ id, mayWrite }: { id: string; mayWrite: boolean }) {
  const fresh = id === NEW;
  const type = useResource(async (signal) => (fresh ? undefined : await get("/api/v1/agent-types/{id}", { path: { id }, signal })), [id]);
  const [plan, setPlan] = useState<Schemas["SessionPlan"]>();
  const [error, setError] = useState<Error>();
  const [ask, question] = useConfirm();
  if (type.error) return <div class="content"><Failure error={type.error} /></div>;
  if (!fresh && !type.data) return <Loading />;
  const declaration = fresh
    ? { id: "coder", name: "Coder", workspace: { enabled: true, provider: "native", workspace_policy: "empty", tools: ["bash", "read", "write", "edit", "ls", "glob", "grep"] } }
    : declared(type.data!);
  return (
    <>
      <header class="top">
        <div class="grow">
          <a href={href(["agent-types"])}>Agent types</a>
          <span class="muted" aria-hidden="true">/</span>
          <h1>{fresh ? "New" : id}</h1>
        </div>
        {!fresh && (
          <Button onClick={() => void post("/api/v1/sessions:plan", { body: { agent_type: id } }).then((made) => { setPlan(made); setError(undefined); }, setError)}>
            Preview plan
          </Button>
        )}
        {!fresh && mayWrite && (
          <Button
            kind="danger"
            onClick={() =>
              ask({
                title: `Delete the agent type ${id}?`,
                text: "Running sessions keep their configuration. New ones of this type cannot be created.",
                action: "Delete",
                run: () => del("/api/v1/agent-types/{id}", { path: { id } }).then(() => navigate(href(["agent-types"]))),
              })
            }
          >
            Delete
          </Button>
        )}
      </header>
      <div class="content">
        {error && <Failure error={error} />}
        {plan && <Card title="A session would get"><PlanView plan={plan} /></Card>}
        <Card title="Declaration">
          <JsonForm
            schema="AgentTypeDeclaration"
            value={declaration}
            readOnly={!mayWrite}
            action={fresh ? "Create" : "Save"}
            save={async (value) => {
              const body = value as Declaration;
              if (!fresh) return put("/api/v1/agent-types/{id}", { path: { id }, body });
              await post("/api/v1/agent-types", { body });
              navigate(href(["agent-types", body.id]));
            }}
          />
        </Card>
      </div>
      {question}
    </>
  );
}

/** The fields of an agent type that a declaration has. Absent ones keep their defaults. */
function declared(type: Schemas["AgentType"]): Record<string, unknown> {
  const { project: _project, created_at: _created, updated_at: _updated, ...rest } = type;
  return Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
}
