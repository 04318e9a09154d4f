/** Declares the agent type `fetcher`, which may reach `api.example.com`. The platform allows it every name below
 * `example.com`. The tests connect to none of them. */
export async function allowNetwork(client) {
  const platform = Object.fromEntries(Object.entries(await client.request("GET", "/platform")).filter(([, value]) => value !== null));
  await client.request("PUT", "/platform", { ...platform, network: { agent: { allow: ["*.example.com"] } } });
  const workspace = {
    enabled: true,
    workspace_policy: "empty",
    require_workspace: true,
    network: { agent: { allow: ["api.example.com"] } },
  };
  // The test files run at the same time.
  await client.request("POST", "/agent-types", { id: "fetcher", workspace }).catch((error) => {
    if (error.code !== "conflict") throw error;
  });
}
