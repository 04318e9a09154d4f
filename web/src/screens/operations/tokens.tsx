/** Tokens: list, create, revoke. The secret of a new token is shown once. */
import { useState } from "preact/hooks";
import type { Who } from "../../app";
import { del, get, post, type Schemas } from "../../api/client";
import { useResource } from "../../resource";
import { Ago, Badge, Button, Card, Copy, Empty, Failure, Field, Table } from "../../ui/basics";
import { Dialog, useConfirm } from "../../ui/dialog";

export function Tokens({ who }: { who: Who }) {
  const tokens = useResource((signal) => get("/api/v1/tokens", { signal }), []);
  const [creating, setCreating] = useState(false);
  const [ask, question] = useConfirm();
  const mayWrite = who.permissions.includes("tokens:write");
  return (
    <Card title="Tokens" actions={mayWrite && <Button small kind="primary" onClick={() => setCreating(true)}>New token</Button>}>
      {tokens.error && <Failure error={tokens.error} />}
      {tokens.data?.items.length === 0 && <Empty title="No tokens">The tokens of the server's configuration are not listed.</Empty>}
      {Boolean(tokens.data?.items.length) && (
        <Table head={["Name", "Role", "Project", "Created", "Expires", "Last used", ""]} label="Tokens">
          {tokens.data!.items.map((token) => (
            <tr key={token.id}>
              <td>{token.name} {token.id === who.token && <Badge status="yours" kind="info" />} <div class="muted">{token.user}</div></td>
              <td>{token.role}</td>
              <td>{token.project ?? "all"}</td>
              <td class="nowrap"><Ago time={token.created_at} /></td>
              <td class="nowrap">{token.expires_at ? <Ago time={token.expires_at} /> : "never"}</td>
              <td class="nowrap">{token.last_used_at ? <Ago time={token.last_used_at} /> : "never"}</td>
              <td class="right">
                {mayWrite && (
                  <Button
                    small
                    kind="danger"
                    onClick={() =>
                      ask({
                        title: `Revoke the token ${token.name}?`,
                        text: "Its requests, streams and pages end at once. This cannot be undone.",
                        action: "Revoke",
                        run: () => del("/api/v1/tokens/{id}", { path: { id: token.id } }).then(tokens.reload),
                      })
                    }
                  >
                    Revoke
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {creating && <NewToken who={who} onClose={() => { setCreating(false); tokens.reload(); }} />}
      {question}
    </Card>
  );
}

const ROLES = ["developer", "viewer", "owner", "metrics", "admin"];

function NewToken({ who, onClose }: { who: Who; onClose: () => void }) {
  const [form, setForm] = useState({ name: "", role: "developer", project: who.project ?? "", days: "30" });
  const [made, setMade] = useState<Schemas["NewToken"]>();
  const [error, setError] = useState<Error>();
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) => setForm({ ...form, [name]: event.currentTarget.value });
  if (made) {
    return (
      <Dialog title="The new token" onClose={onClose}>
        <div class="stack">
          <p>Copy it now. The server keeps only its hash and cannot show it again.</p>
          <pre class="box">{made.token}</pre>
          <div class="row end"><Copy text={made.token} /><Button kind="primary" onClick={onClose}>Done</Button></div>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="New token" onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          const body = { name: form.name, role: form.role, ...(form.project ? { project: form.project } : {}), ...(Number(form.days) ? { expires_in: Number(form.days) * 86_400 } : {}) };
          post("/api/v1/tokens", { body: body as never }).then((token) => setMade(token as Schemas["NewToken"]), setError);
        }}
      >
        <Field label="Name" help="Such as alice-laptop."><input value={form.name} onInput={set("name")} required /></Field>
        <Field label="Role"><select value={form.role} onChange={set("role")}>{ROLES.map((role) => <option key={role}>{role}</option>)}</select></Field>
        <Field label="Project" help="Empty for the whole platform."><input value={form.project} onInput={set("project")} readOnly={Boolean(who.project)} /></Field>
        <Field label="Days until it expires" help="Empty for a token that does not expire."><input type="number" min={1} value={form.days} onInput={set("days")} /></Field>
        {error && <Failure error={error} />}
        <div class="row end"><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit">Create</Button></div>
      </form>
    </Dialog>
  );
}
