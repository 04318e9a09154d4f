/** What a session would get: provider, policy with its chain, init plan, limits. */
import type { Schemas } from "../../api/client";
import { words } from "../../format";
import { Facts, Notice } from "../../ui/basics";

export function PlanView({ plan }: { plan: Schemas["SessionPlan"] }) {
  const workspace = plan.workspace;
  if (!workspace) return <Notice kind="info" title="No workspace">This agent type has no workspace.</Notice>;
  return (
    <div class="stack" aria-live="polite">
      {!workspace.provider && <Notice kind="bad" title="No provider can make this workspace now" />}
      {workspace.warnings.map((warning) => (
        <Notice key={warning.message} kind="warn" title={words(warning.code)}>
          {warning.message}
        </Notice>
      ))}
      {workspace.passed_over.map((one) => (
        <Notice key={JSON.stringify(one)} kind="info" title={`${one.provider} is passed over`}>
          {"reason" in one ? String(one.reason) : JSON.stringify(one)}
        </Notice>
      ))}
      <Facts
        items={[
          ["Provider", workspace.provider ?? "none"],
          ["Policy", <PolicyChain policy={workspace.policy} />],
          ["Init plan", <InitPlan plan={workspace.plan} />],
          ["Tools", workspace.tools.join(" ") || "none"],
          ["Limits", limitsText(workspace.limits)],
          workspace.network ? ["Network", <NetworkRules plan={workspace.network} />] : ["Network", "none: no layer asks for one"],
        ]}
      />
    </div>
  );
}

/** The hosts of each phase, and findings such as a rule without effect. */
function NetworkRules({ plan }: { plan: Schemas["NetworkPlan"] }) {
  return (
    <div class="stack">
      {(["setup", "agent"] as const).map((phase) => (
        <div key={phase}>
          <span class="muted">{phase}:</span> {plan[phase].length ? plan[phase].map((one) => <code key={`${one.host} ${one.port}`}>{one.port ? `${one.host}:${one.port}` : one.host} </code>) : "nothing"}
        </div>
      ))}
      {plan.findings.map((finding, index) => (
        <Notice key={index} kind="warn" title={`${words(finding.kind)} (${finding.phase})`}>
          {finding.message}
        </Notice>
      ))}
    </div>
  );
}

function limitsText(limits: Schemas["Limits"]): string {
  const enforced = limits.enforced.length ? `enforced: ${limits.enforced.join(", ")}` : "none of them enforced";
  return `${limits.cpu ?? "no limit of"} CPU, ${limits.memory ?? "no limit of"} memory, ${limits.disk ?? "no limit of"} disk, ${limits.pids ?? "any number of"} processes (${enforced})`;
}

const LAYERS = ["task", "role", "project", "platform"] as const;

/** Shows which layer decided, and what the others said. */
export function PolicyChain({ policy }: { policy: Schemas["Policy"] }) {
  return (
    <div>
      <strong>{policy.policy}</strong> <span class="muted">decided by the {policy.source}</span>
      <ol class="chain">
        {LAYERS.map((layer) => {
          const said = policy.chain[layer];
          return (
            <li key={layer}>
              <span class="muted">{layer === "role" ? "agent type" : layer}:</span>{" "}
              {said ? <code>{typeof said === "string" ? said : JSON.stringify(said)}</code> : <span class="muted">says nothing</span>}
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function InitPlan({ plan }: { plan: Schemas["InitPlan"] }) {
  const actions = Array.isArray(plan) ? plan : ((plan as { actions?: unknown[] }).actions ?? []);
  if (!actions.length) return <span class="muted">nothing to do</span>;
  return (
    <ol class="chain">
      {actions.map((action, index) => (
        <li key={index}>
          <code>{typeof action === "string" ? action : JSON.stringify(action)}</code>
        </li>
      ))}
    </ol>
  );
}
