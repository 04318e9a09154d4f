/** What a session does now: problems, provisioning, limits against use, execs. */
import { get, type Schemas, type Session } from "../../api/client";
import { bytes, duration, parseSize, words } from "../../format";
import { useResource } from "../../resource";
import { href } from "../../router";
import { Ago, Badge, Card, Empty, Facts, Failure, Meter, Notice } from "../../ui/basics";
import { PolicyChain } from "../sessions/plan-view";
import { describe } from "./calls";
import { Execs } from "./execs";
import type { Journal } from "./journal";

export function Overview({ session, journal, mayUse }: { session: Session; journal: Journal; mayUse: boolean }) {
  const workspace = session.workspace;
  return (
    <>
      <Problems session={session} />
      <div class="grid">
        <Now journal={journal} session={session} />
        <Limits session={session} />
      </div>
      {workspace && workspace.provider !== "memory" && <Execs session={session} journal={journal} mayUse={mayUse} />}
      <div class="grid">
        <Provisioning session={session} />
        <Card title="Workspace">
          {workspace ? (
            <Facts
              items={[
                ["Provider", workspace.provider ?? "none"],
                ["Policy", <PolicyChain policy={workspace.policy} />],
                ["Root", <code>{workspace.root}</code>],
                workspace.base.commit ? ["Commit", <code>{workspace.base.commit}</code>] : undefined,
                workspace.image ? ["Image", <code>{workspace.image.reference}</code>] : undefined,
                ["Tools", workspace.tools.join(" ") || "none"],
                workspace.warm ? ["Warm pool", "the box was started ahead of the session"] : undefined,
                ["Fingerprint", <code class="muted">{workspace.fingerprint}</code>],
              ]}
            />
          ) : (
            <Empty title="No workspace">This session works without files.</Empty>
          )}
        </Card>
        <Card title="Task and metadata">
          <Facts
            items={[
              session.task.prompt ? ["Task", <pre>{session.task.prompt}</pre>] : undefined,
              session.task.id ? ["Task id", session.task.id] : undefined,
              ...Object.entries(session.task.context ?? {}).filter(([, value]) => value !== null).map(([key, value]): [string, string] => [words(key), String(value)]),
              ...Object.entries(session.metadata).map(([key, value]): [string, string] => [key, typeof value === "string" ? value : JSON.stringify(value)]),
              session.close_reason ? ["Closed because", words(session.close_reason)] : undefined,
            ]}
          />
        </Card>
      </div>
    </>
  );
}

/** Failures, warnings and refused calls, each with its reason and what to do. */
function Problems({ session }: { session: Session }) {
  return (
    <>
      {session.failure && (
        <Notice kind="bad" title={`Failed: ${words(session.failure.code)}`}>
          {session.failure.message}
        </Notice>
      )}
      {session.workspace?.failures.map((failure, index) => (
        <Notice key={index} kind="bad" title={`${failure.provider}: ${words(failure.code)}`}>
          {failure.message}
        </Notice>
      ))}
      {session.warnings.map((warning, index) => (
        <Notice key={index} kind="warn" title={words(warning.code)}>
          {warning.message}
        </Notice>
      ))}
    </>
  );
}

function Now({ journal, session }: { journal: Journal; session: Session }) {
  const { running, recent, refused } = describe(journal.events);
  return (
    <Card title="Now" actions={<a href={href(["sessions", session.id, "timeline"])}>Timeline</a>}>
      <div class="stack">
        {running.length === 0 ? (
          <p class="muted">{session.status === "active" ? "Nothing runs. The session waits for the next call." : `The session is ${session.status}.`}</p>
        ) : (
          running.slice(-5).map((call) => (
            <div class="row" key={call.key}>
              <Badge status="running" />
              <strong>{call.title}</strong>
              <code class="cut grow">{call.text}</code>
              <Ago time={new Date(call.start).toISOString()} />
            </div>
          ))
        )}
        {recent.length > 0 && (
          <div>
            <h3>Latest calls</h3>
            {recent.map((call) => (
              <div class="row tree-line" key={call.key}>
                <span class={`mark ${call.kind}`} aria-label={call.kind === "bad" ? "failed" : "done"}>
                  {call.kind === "bad" ? "✕" : "✓"}
                </span>
                <a href={href(["sessions", session.id, "timeline"], { at: String(call.seq) })}>{call.title}</a>
                <code class="cut grow muted">{call.text}</code>
                <span class="muted">{duration(call.ms)}</span>
              </div>
            ))}
          </div>
        )}
        {refused.slice(-3).map((call) => (
          <Notice key={call.key} kind="warn" title={`Refused: ${call.title}`}>
            {call.message}
          </Notice>
        ))}
      </div>
    </Card>
  );
}

function Limits({ session }: { session: Session }) {
  const open = session.status === "active" || session.status === "paused";
  const usage = useResource(
    (signal) => (open ? get("/api/v1/sessions/{id}/usage", { path: { id: session.id }, signal }) : Promise.resolve(null)),
    [session.id, open],
    10_000,
  );
  const limits = session.workspace?.limits;
  if (!limits) return <Card title="Limits"><p class="muted">Without a workspace there are no limits of a box.</p></Card>;
  const used = (usage.data as Schemas["WorkspaceUsage"] | null | undefined)?.own_bytes;
  const disk = parseSize(limits.disk);
  const enforced = (name: string) => limits.enforced.includes(name);
  const row = (name: string, value: string | number | null) =>
    [name, <>{value ?? "none"} {value !== null && !enforced(name.toLowerCase()) && <span class="muted">(not enforced by this provider)</span>}</>] as [string, preact.ComponentChildren];
  return (
    <Card title="Limits against use">
      {usage.error && <Failure error={usage.error} />}
      <Facts
        items={[
          row("CPU", limits.cpu),
          row("Memory", limits.memory),
          [
            "Disk",
            <div class="stack">
              <span>
                {used === null || used === undefined ? "" : `${bytes(used)} of `}
                {limits.disk ?? "no limit"}
              </span>
              {disk && used !== null && used !== undefined && <Meter value={used} most={disk} label="Disk" />}
            </div>,
          ],
          row("Pids", limits.pids),
          ["Output of a call", bytes(limits.output_bytes)],
          ["Command", bytes(limits.command_bytes)],
        ]}
      />
    </Card>
  );
}

function Provisioning({ session }: { session: Session }) {
  const provisioning = session.provisioning;
  const steps = provisioning?.steps ?? [];
  if (!steps.length) return <Card title="Provisioning"><p class="muted">Nothing was made.</p></Card>;
  const start = Math.min(...steps.map((step) => Date.parse(step.started_at)));
  const end = Math.max(...steps.map((step) => Date.parse(step.started_at) + (step.duration_ms ?? 0)), start + 1);
  return (
    <Card title="Provisioning" actions={<span class="muted">{duration(provisioning?.duration_ms)}{provisioning?.setup_cached ? ", with a kept setup result" : ""}</span>}>
      <div class="steps">
        {steps.map((step, index) => (
          <div key={index}>
            <div class={`step ${step.failure ? "bad" : ""}`}>
              <span class="cut" title={`${words(step.name)}, attempt ${step.attempt}, ${step.provider}`}>
                {words(step.name)} {step.attempt > 1 && <span class="muted">attempt {step.attempt}</span>}
              </span>
              <div class="track">
                <div
                  style={{
                    left: `${((Date.parse(step.started_at) - start) / (end - start)) * 97}%`,
                    width: `${((step.duration_ms ?? 0) / (end - start)) * 97}%`,
                  }}
                />
              </div>
              <span class="muted right">{step.duration_ms === null ? "running" : duration(step.duration_ms)}</span>
            </div>
            {step.progress && step.duration_ms === null && (
              <div class="step-more muted">
                {step.progress.stage} {step.progress.percent} % {step.progress.detail}
              </div>
            )}
            {step.failure && <Notice kind="bad" title={words(step.failure.code)}>{step.failure.message}</Notice>}
            {step.setup && <Setup setup={step.setup} />}
          </div>
        ))}
      </div>
    </Card>
  );
}

function Setup({ setup }: { setup: Schemas["SetupOutput"] }) {
  const bad = setup.exit_code !== 0;
  return (
    <details class="step-more" open={bad}>
      <summary>
        <code>{setup.command}</code> {bad && <Badge status={setup.timed_out ? "timed out" : `exit ${setup.exit_code}`} kind="bad" />}
      </summary>
      <div class="log">
        {setup.stdout}
        {setup.stderr && <span class="stderr">{setup.stderr}</span>}
        {!setup.stdout && !setup.stderr && <span class="muted">No output.</span>}
      </div>
    </details>
  );
}
