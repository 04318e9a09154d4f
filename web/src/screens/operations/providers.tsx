/** Providers with their health, and the warm pools. */
import type { Who } from "../../app";
import { get } from "../../api/client";
import { number } from "../../format";
import { useResource } from "../../resource";
import { Badge, Card, Failure, Loading, Notice, Table } from "../../ui/basics";

export function Providers({ who }: { who: Who }) {
  const providers = useResource((signal) => get("/api/v1/providers", { signal }), [], 15_000);
  const platform = !who.project && who.permissions.includes("usage:read");
  const pool = useResource(async (signal) => (platform ? await get("/api/v1/pool", { signal }) : undefined), [platform], 10_000);
  return (
    <>
      {providers.error && <Failure error={providers.error} />}
      {providers.loading && <Loading />}
      <div class="grid">
        {providers.data?.items.map((provider) => (
          <Card key={provider.name} title={provider.name} actions={<Badge status={provider.healthy ? "healthy" : "not healthy"} kind={provider.healthy ? "good" : "bad"} />}>
            {provider.detail && <Notice kind={provider.healthy ? "info" : "bad"}>{provider.detail}</Notice>}
            {!provider.healthy && <p class="muted">`stead doctor` on the server says what is missing and how to fix it.</p>}
            <details>
              <summary class="muted">Capabilities</summary>
              <pre class="box" tabIndex={0}>{JSON.stringify(provider.capabilities, null, 2)}</pre>
            </details>
          </Card>
        ))}
      </div>
      {platform && (
        <Card title="Warm pools">
          {pool.error && <Failure error={pool.error} />}
          {pool.data?.items.length === 0 && <p class="muted">No agent type keeps boxes ready (`warm_pool`).</p>}
          {Boolean(pool.data?.items.length) && (
            <Table head={["Agent type", "Provider", "Ready", "Hits", "Misses", "Discarded"]} label="Warm pools">
              {pool.data!.items.map((entry) => (
                <tr key={entry.key}>
                  <td>{entry.agent_type}</td>
                  <td>{entry.provider}</td>
                  <td>{entry.ready} of {entry.target}</td>
                  <td>{number(entry.hits)}</td>
                  <td>{number(entry.misses)}</td>
                  <td>{number(entry.discarded)}</td>
                </tr>
              ))}
            </Table>
          )}
        </Card>
      )}
    </>
  );
}
