/** The form for a new session, with a preview of what it would get. */
import { useState } from "preact/hooks";
import { newKey, post, type Schemas } from "../../api/client";
import { href, navigate } from "../../router";
import { Button, Failure, Field } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { PlanView } from "./plan-view";

type AgentType = Schemas["AgentType"];

export function NewSession({ types, onClose }: { types: AgentType[]; onClose: () => void }) {
  const [form, setForm] = useState({ agent_type: types[0]?.id ?? "", prompt: "", repository: "", branch: "", metadata: "" });
  const [plan, setPlan] = useState<Schemas["SessionPlan"]>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const [key] = useState(newKey);
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) =>
    setForm({ ...form, [name]: event.currentTarget.value });

  function run(action: () => Promise<void>) {
    setBusy(true);
    setError(undefined);
    action()
      .catch((failure: Error) => setError(failure))
      .finally(() => setBusy(false));
  }

  return (
    <Dialog title="New session" onClose={onClose} wide={Boolean(plan)}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          run(async () => {
            const created = await post("/api/v1/sessions", { body: body(form), headers: { "Idempotency-Key": key } });
            navigate(href(["sessions", (created as Schemas["Session"]).id]));
            onClose();
          });
        }}
      >
        <Field label="Agent type">
          <select value={form.agent_type} onChange={set("agent_type")} required>
            {types.map((type) => (
              <option key={type.id} value={type.id}>
                {type.name ? `${type.id}: ${type.name}` : type.id}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Task" help="What the agent should do. The list shows its first line.">
          <textarea rows={3} value={form.prompt} onInput={set("prompt")} />
        </Field>
        <div class="grid">
          <Field label="Repository" help="Only if the agent type takes its repository from the task.">
            <input value={form.repository} onInput={set("repository")} placeholder="https://…" />
          </Field>
          <Field label="Branch">
            <input value={form.branch} onInput={set("branch")} />
          </Field>
        </div>
        <Field label="Metadata" help="One key=value per line. Sessions are found by it.">
          <textarea rows={2} value={form.metadata} onInput={set("metadata")} />
        </Field>
        {error && <Failure error={error} />}
        {plan && <PlanView plan={plan} />}
        <div class="row end">
          <Button disabled={busy} onClick={() => run(async () => setPlan(await post("/api/v1/sessions:plan", { body: body(form) })))}>
            Preview
          </Button>
          <Button kind="primary" type="submit" disabled={busy || !form.agent_type}>
            Create session
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function body(form: { agent_type: string; prompt: string; repository: string; branch: string; metadata: string }): Schemas["SessionRequest"] {
  const pairs = form.metadata.split("\n").map((line) => line.split(/=(.*)/s)).filter((pair) => pair.length > 1);
  const context = form.repository ? { repository_url: form.repository, ...(form.branch ? { branch: form.branch } : {}) } : undefined;
  const task = form.prompt || context ? { ...(form.prompt ? { prompt: form.prompt } : {}), ...(context ? { context } : {}) } : undefined;
  return {
    agent_type: form.agent_type,
    ...(task ? { task } : {}),
    ...(pairs.length ? { metadata: Object.fromEntries(pairs.map(([name, value]) => [name!.trim(), value!.trim()])) } : {}),
  } as Schemas["SessionRequest"];
}
