/** The prompt as the model sees it, and the content and runs behind it. */
import { useState } from "preact/hooks";
import { get, type Session } from "../../api/client";
import { useResource } from "../../resource";
import { Ago, Badge, Card, Failure, Loading, Select, Table } from "../../ui/basics";

const FLAVORS: [string, string][] = [["stead", "Stead"], ["claude", "Claude"], ["codex", "Codex"]];

export function Prompt({ session }: { session: Session }) {
  const [flavor, setFlavor] = useState("stead");
  const path = { id: session.id };
  const prompt = useResource((signal) => get("/api/v1/sessions/{id}/prompt", { path, query: { flavor: flavor as "stead" }, signal }), [session.id, flavor]);
  const runs = useResource((signal) => get("/api/v1/sessions/{id}/runs", { path, signal }), [session.id, session.seq]);
  return (
    <>
      <Card title="Prompt sections" actions={<Select label="Form" value={flavor} onChange={setFlavor} options={FLAVORS} />}>
        {prompt.error && <Failure error={prompt.error} />}
        {prompt.loading && <Loading />}
        {prompt.data && <pre class="box" tabIndex={0}>{prompt.data.text}</pre>}
      </Card>
      <Card title="Runs">
        {runs.error && <Failure error={runs.error} />}
        {runs.data?.items.length ? (
          <Table head={["Run", "Status", "Model", "Steps", "Started"]} label="Runs">
            {runs.data.items.map((run) => (
              <tr key={run.id}>
                <td><code>{run.id}</code></td>
                <td><Badge status={run.status} /> {run.detail}</td>
                <td>{run.model} <span class="muted">{run.provider}</span></td>
                <td>{run.steps}</td>
                <td><Ago time={run.started_at} /></td>
              </tr>
            ))}
          </Table>
        ) : (
          <p class="muted">No run: an agent calls the tools directly.</p>
        )}
      </Card>
    </>
  );
}
