/** Secrets of a project or of the platform: names and bindings. No answer of the server has a value. */
import { useState } from "preact/hooks";
import type { Who } from "../app";
import { del, get, put, type Schemas } from "../api/client";
import { useResource } from "../resource";
import { Ago, Badge, Button, Card, Empty, Failure, Field, Table } from "../ui/basics";
import { Dialog, useConfirm } from "../ui/dialog";

type Secret = Schemas["Secret"];

/** `project` is the owner. Without it, the owner is the project of the token, or the platform. */
export function Secrets({ project, who }: { project?: string; who: Who }) {
  const mayRead = who.permissions.includes("secrets:read");
  const secrets = useResource(
    async (signal) => (mayRead ? (await get("/api/v1/secrets", { query: { project, limit: 500 }, signal })).items : []),
    [project, mayRead],
  );
  const [editing, setEditing] = useState<Secret | "new">();
  const [ask, question] = useConfirm();
  const mayWrite = who.permissions.includes("secrets:write");
  if (!mayRead) return null;
  return (
    <Card title="Secrets" actions={mayWrite && <Button small kind="primary" onClick={() => setEditing("new")}>New secret</Button>}>
      {secrets.error && <Failure error={secrets.error} />}
      {secrets.data?.length === 0 && <Empty title="No secrets">A secret is a value that sessions use and never see, such as an API key.</Empty>}
      {Boolean(secrets.data?.length) && (
        <Table head={["Name", "Hosts", "Agent types", "Sent as", "Set", ""]} label="Secrets">
          {secrets.data!.map((secret) => (
            <tr key={secret.name}>
              <td>
                <strong>{secret.name}</strong> {!secret.usable && <Badge status="cannot be opened" kind="bad" />}
              </td>
              <td><code>{secret.hosts.join(" ")}</code> {secret.over_http && <Badge status="plain HTTP" kind="warn" />}</td>
              <td>{secret.agent_types.join(", ") || <span class="muted">none may use it</span>}</td>
              <td><code>{secret.header}: {secret.as}</code></td>
              <td class="nowrap">version {secret.version}, <Ago time={secret.updated_at} /></td>
              <td class="right nowrap">
                {mayWrite && (
                  <>
                    <Button small label={`Replace ${secret.name}`} onClick={() => setEditing(secret)}>Replace</Button>{" "}
                    <Button
                      small
                      kind="danger"
                      label={`Remove ${secret.name}`}
                      onClick={() =>
                        ask({
                          title: `Remove the secret ${secret.name}?`,
                          text: "Sessions that use it get no value with their next request. This cannot be undone.",
                          action: "Remove",
                          run: () => del("/api/v1/secrets/{name}", { path: { name: secret.name }, query: { project } }).then(secrets.reload),
                        })
                      }
                    >
                      Remove
                    </Button>
                  </>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {editing && <SecretForm project={project} old={editing === "new" ? undefined : editing} onClose={() => { setEditing(undefined); secrets.reload(); }} />}
      {question}
    </Card>
  );
}

const listed = (text: string) => text.split(/[\s,]+/).filter(Boolean);

function SecretForm({ project, old, onClose }: { project?: string; old?: Secret; onClose: () => void }) {
  const [form, setForm] = useState({
    name: old?.name ?? "",
    value: "",
    hosts: old?.hosts.join(" ") ?? "",
    agentTypes: old?.agent_types.join(" ") ?? "",
    header: old?.header ?? "",
    as: old?.as ?? "",
    overHttp: old?.over_http ?? false,
  });
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) => setForm({ ...form, [name]: event.currentTarget.value });
  return (
    <Dialog title={old ? `Replace ${old.name}` : "New secret"} onClose={onClose}>
      <form
        class="stack"
        autoComplete="off"
        onSubmit={(event) => {
          event.preventDefault();
          setBusy(true);
          const body = {
            value: form.value,
            hosts: listed(form.hosts),
            agent_types: listed(form.agentTypes),
            over_http: form.overHttp,
            ...(form.header ? { header: form.header } : {}),
            ...(form.as ? { as: form.as } : {}),
          };
          put("/api/v1/secrets/{name}", { path: { name: form.name }, query: { project }, body }).then(onClose, (failure: Error) => {
            setError(failure);
            setBusy(false);
          });
        }}
      >
        <Field label="Name"><input value={form.name} onInput={set("name")} required readOnly={Boolean(old)} /></Field>
        <Field label="Value" help="The server seals it and never shows it again."><input type="password" autoComplete="new-password" value={form.value} onInput={set("value")} required /></Field>
        <Field label="Hosts" help="Those that may receive it, such as api.example.com or api.example.com:8443."><input value={form.hosts} onInput={set("hosts")} required /></Field>
        <Field label="Agent types" help="Those whose sessions may use it; * for every one. Empty for none."><input value={form.agentTypes} onInput={set("agentTypes")} /></Field>
        <Field label="Header" help="Empty for authorization."><input value={form.header} onInput={set("header")} /></Field>
        <Field label="Text of the header" help="With {} in the place of the value. Empty for Bearer {} in authorization."><input value={form.as} onInput={set("as")} /></Field>
        <label class="row"><input type="checkbox" checked={form.overHttp} onChange={(event) => setForm({ ...form, overHttp: event.currentTarget.checked })} /> Also send it to services over plain HTTP</label>
        {error && <Failure error={error} />}
        <div class="row end"><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" disabled={busy}>Save</Button></div>
      </form>
    </Dialog>
  );
}
