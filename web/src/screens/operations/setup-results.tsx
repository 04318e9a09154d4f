/** Kept results of setup commands, with which later sessions begin. */
import type { Who } from "../../app";
import { del, get } from "../../api/client";
import { bytes, number } from "../../format";
import { useResource } from "../../resource";
import { Ago, Button, Card, Failure, Loading, Table } from "../../ui/basics";
import { useConfirm } from "../../ui/dialog";

export function SetupResults({ who }: { who: Who }) {
  const results = useResource((signal) => get("/api/v1/setup-results", { signal }), []);
  const [ask, question] = useConfirm();
  const items = results.data?.items ?? [];
  return (
    <Card title="Setup results" actions={<span class="muted">{bytes(items.reduce((sum, one) => sum + one.bytes, 0))}</span>}>
      {results.error && <Failure error={results.error} />}
      {results.loading && !results.data && <Loading />}
      {results.data && items.length === 0 && <p class="muted">None is kept. Agent types with <code>"setup_cache": true</code> keep what their setup commands wrote.</p>}
      {items.length > 0 && (
        <Table head={["Agent type", "Setup commands", "Size", "In use by", "Last used", ""]} label="Setup results">
          {items.map((result) => (
            <tr key={result.id}>
              <td>
                {result.agent_type} <div class="muted">{result.project ?? "no project"}, {result.provider}</div>
              </td>
              <td>
                {result.commands.map((command, index) => <div key={index}><code>{command}</code></div>)}
                {result.commit && <div class="muted">at <code>{result.commit.slice(0, 12)}</code></div>}
              </td>
              <td class="nowrap">{bytes(result.bytes)}</td>
              <td>{number(result.users)}</td>
              <td class="nowrap"><Ago time={result.used_at} /></td>
              <td class="right">
                {who.permissions.includes("platform:write") && (
                  <Button
                    small
                    kind="danger"
                    label={`Remove the result of ${result.agent_type}`}
                    onClick={() =>
                      ask({
                        title: `Remove the setup result of ${result.agent_type}?`,
                        text: "The next session runs the setup commands again. Sessions that use the files keep them until they end.",
                        action: "Remove",
                        run: () => del("/api/v1/setup-results/{id}", { path: { id: result.id } }).then(results.reload),
                      })
                    }
                  >
                    Remove
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {question}
    </Card>
  );
}
