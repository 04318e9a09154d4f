/** The proof of a session: its journal folds to the live state. And what would be different. */
import { useState } from "preact/hooks";
import { get, type Schemas, type Session } from "../../api/client";
import { number } from "../../format";
import { useResource } from "../../resource";
import { href } from "../../router";
import { Badge, Button, Card, Facts, Failure, Field, Loading, Notice, Table } from "../../ui/basics";

export function Replay({ session }: { session: Session }) {
  const path = { id: session.id };
  const replay = useResource((signal) => get("/api/v1/sessions/{id}/replay", { path, signal }), [session.id]);
  return (
    <>
      <Card title="Verification" actions={<Button small onClick={replay.reload}>Verify again</Button>}>
        {replay.error && <Failure error={replay.error} />}
        {replay.loading && <Loading what="Folding the journal" />}
        {replay.data && (
          <div class="stack">
            <div class="row">
              <Badge status={replay.data.identical ? "verified" : "different"} kind={replay.data.identical ? "good" : "bad"} />
              <span>
                {replay.data.identical
                  ? `${number(replay.data.seq)} events fold to exactly the live state.`
                  : `The fold differs from the live state: ${replay.data.difference?.what ?? ""}`}
              </span>
            </div>
            <Facts items={[["State hash", <code>{replay.data.state_hash}</code>]]} />
            <div class="row">
              <Button href={`/api/v1/sessions/${session.id}/journal`} download={`${session.id}.jsonl`}>Download the journal</Button>
              <code class="muted">stead replay --file {session.id}.jsonl</code>
            </div>
          </div>
        )}
      </Card>
      <Against session={session} />
    </>
  );
}

function Against({ session }: { session: Session }) {
  const types = useResource((signal) => get("/api/v1/agent-types", { query: { limit: 500 }, signal }), []);
  const [what, setWhat] = useState<"agent_type" | "content">("agent_type");
  const [value, setValue] = useState(session.agent_type as string);
  const [result, setResult] = useState<Schemas["ReplayAgainst"]>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  return (
    <Card title="What if">
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          setBusy(true);
          setError(undefined);
          get("/api/v1/sessions/{id}/replay/against", { path: { id: session.id }, query: { [what]: value } })
            .then(setResult, (failure: Error) => { setResult(undefined); setError(failure); })
            .finally(() => setBusy(false));
        }}
      >
        <p class="muted">Repeat the recorded decisions with another agent type or content version. Nothing is changed.</p>
        <div class="row">
          <Field label="Replay with">
            <select value={what} onChange={(event) => { setWhat(event.currentTarget.value as "content"); setValue(""); }}>
              <option value="agent_type">an agent type as it is now</option>
              <option value="content">a content version</option>
            </select>
          </Field>
          <Field label={what === "content" ? "Content, as name@version" : "Agent type"}>
            {what === "content" ? (
              <input value={value} onInput={(event) => setValue(event.currentTarget.value)} placeholder="name@2" required />
            ) : (
              <select value={value} onChange={(event) => setValue(event.currentTarget.value)} required>
                <option value="">Choose</option>
                {types.data?.items.map((type) => <option key={type.id} value={type.id}>{type.id}</option>)}
              </select>
            )}
          </Field>
          <Button type="submit" kind="primary" disabled={busy}>Compare</Button>
        </div>
        {error && <Failure error={error} />}
        {result && (
          <div class="stack" aria-live="polite">
            {result.identical ? (
              <Notice kind="good" title={`All ${number(result.compared)} decisions would be the same.`} />
            ) : (
              <Notice kind="warn" title={`First divergence at event ${result.first_divergence ?? "?"}`}>
                {result.changed.length} of {number(result.compared)} decisions would change.
              </Notice>
            )}
            {result.changed.length > 0 && (
              <Table head={["Event", "What", "Recorded", "Now"]} label="Changed decisions">
                {result.changed.slice(0, 200).map((one) => (
                  <tr key={`${one.seq}${one.what}`}>
                    <td><a href={href(["sessions", session.id, "timeline"], { at: String(one.seq) })}>{one.seq}</a></td>
                    <td>{one.what}</td>
                    <td>{one.recorded}</td>
                    <td>{one.now}</td>
                  </tr>
                ))}
              </Table>
            )}
          </div>
        )}
      </form>
    </Card>
  );
}
