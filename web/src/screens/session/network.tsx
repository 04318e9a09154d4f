/** What the box reaches: allowed hosts, contacts with their bytes, and refusals with the rule that would allow them. */
import type { Who } from "../../app";
import { get, post, type Schemas, type Session } from "../../api/client";
import { bytes, number, words } from "../../format";
import { useResource } from "../../resource";
import { Ago, Badge, Button, Card, Copy, Empty, Failure, Loading, Notice, Table } from "../../ui/basics";
import { type Question, useConfirm } from "../../ui/dialog";

type Report = Schemas["NetworkReport"];
type Reachable = Partial<Schemas["ReachableHost"]> & { host: string };
type Ask = (question: Question) => void;

const HOUR = 3600;
const address = (host: string, port: number | null | undefined) => (port ? `${host}:${port}` : host);

export function Network({ session, who, last }: { session: Session; who: Who; last: number }) {
  const path = { id: session.id };
  const report = useResource((signal) => get("/api/v1/sessions/{id}/network", { path, signal }), [session.id, last], 10_000);
  const [ask, question] = useConfirm();
  const data = report.data;
  const policy = session.workspace?.network;
  const mayChange = who.permissions.includes("platform:write") && session.status === "active" && Boolean(policy);
  if (!data) return report.error ? <Failure error={report.error} /> : <Loading />;
  return (
    <>
      {report.error && <Failure error={report.error} />}
      {data.uncounted && (
        <Notice kind="warn" title="Some bytes are missing">
          The server once ended before it had recorded the counts of this session.
        </Notice>
      )}
      <Refused report={data} session={session} mayChange={mayChange} ask={ask} reload={report.reload} />
      <Used report={data} />
      <ReachableHosts report={data} session={session} mayChange={mayChange} ask={ask} reload={report.reload} />
      {policy && (policy.grants.length > 0 || policy.denied.length > 0) && <Changes policy={policy} />}
      {question}
    </>
  );
}

interface PartProps {
  report: Report;
  session: Session;
  mayChange: boolean;
  ask: Ask;
  reload: () => void;
}

function Refused({ report, session, mayChange, ask, reload }: PartProps) {
  return (
    <Card title="Refused connections">
      {report.refused.length === 0 ? (
        <p class="muted">No connection was refused.</p>
      ) : (
        <Table head={["Host", "Why", "Layer", "Rule that would allow it", ""]} label="Refused connections">
          {report.refused.map((one) => {
            const draft = one.draft as unknown;
            const rule = draft ? JSON.stringify(draft) : undefined;
            return (
              <tr key={`${one.host} ${one.port} ${one.why}`}>
                <td>
                  <code>{address(one.host, one.port)}</code>
                </td>
                <td>{words(one.why)}</td>
                <td>{one.layer ? words(one.layer) : "–"}</td>
                <td>
                  {rule ? (
                    <>
                      <code>{rule}</code>
                      <Copy text={rule} what={`the rule for ${one.host}`} />
                    </>
                  ) : (
                    <span class="muted">no rule would</span>
                  )}
                </td>
                <td class="right">
                  {mayChange && rule && (
                    <Button
                      small
                      label={`Allow for an hour: ${address(one.host, one.port)}`}
                      onClick={() =>
                        ask({
                          title: `Allow ${address(one.host, one.port)} for an hour?`,
                          text: "The session can reach the host until then. The platform, the project and the task have to allow it too.",
                          action: "Allow",
                          danger: false,
                          run: () => post("/api/v1/sessions/{id}/network:grant", { path: { id: session.id }, body: { allow: [draft as never], ttl_seconds: HOUR } }).then(reload),
                        })
                      }
                    >
                      Allow for an hour
                    </Button>
                  )}
                </td>
              </tr>
            );
          })}
        </Table>
      )}
    </Card>
  );
}

function Used({ report }: { report: Report }) {
  return (
    <Card title="Contacts">
      {report.used.length === 0 ? (
        <p class="muted">The box connected to no host.</p>
      ) : (
        <Table head={["Host", "Connections", "Sent", "Received"]} label="Contacts">
          {report.used.map((one) => (
            <tr key={`${one.host} ${one.port}`}>
              <td>
                <code>{address(one.host, one.port)}</code>
              </td>
              <td>{number(one.connections)}</td>
              <td class="nowrap">{bytes(one.bytes_out)}</td>
              <td class="nowrap">{bytes(one.bytes_in)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

function ReachableHosts({ report, session, mayChange, ask, reload }: PartProps) {
  const hosts = report.reachable as unknown as Reachable[];
  return (
    <Card title="Allowed now" actions={<span class="muted">{report.phase} phase</span>}>
      {hosts.length === 0 ? (
        <Empty title="No network">
          No layer of the policy allows a host. <code>network</code> of the agent type asks for hosts, and the platform sets the most that it can get.
        </Empty>
      ) : (
        <Table head={["Host", "Protocol", "Treatment", "Secrets", ""]} label="Allowed hosts">
          {hosts.map((one) => (
            <tr key={`${one.host} ${one.port} ${one.protocol}`}>
              <td>
                <code>{address(one.host, one.port)}</code> {one.private && <Badge status="private address" kind="warn" />}
              </td>
              <td>{one.protocol}</td>
              <td>{one.how}</td>
              <td>{one.secrets?.join(", ") || "–"}</td>
              <td class="right">
                {mayChange && (
                  <Button
                    small
                    kind="danger"
                    label={`Take away ${address(one.host, one.port)}`}
                    onClick={() =>
                      ask({
                        title: `Take ${one.host} away from this session?`,
                        text: "Its open connections to the host end, on every port. This holds until the session ends.",
                        action: "Take away",
                        run: () => post("/api/v1/sessions/{id}/network:narrow", { path: { id: session.id }, body: { deny: [one.host] } }).then(reload),
                      })
                    }
                  >
                    Take away
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

function Changes({ policy }: { policy: Schemas["WorkspaceNetwork"] }) {
  return (
    <Card title="Changed by an administrator">
      <Table head={["Host", "Change", "Until"]} label="Changes of the network">
        {policy.grants.map((grant, index) => (
          <tr key={`grant ${index}`}>
            <td>
              <code>{grant.host}</code>
            </td>
            <td>allowed in {grant.phase}</td>
            <td>
              <Ago time={grant.until} />
            </td>
          </tr>
        ))}
        {policy.denied.map((host) => (
          <tr key={`denied ${host}`}>
            <td>
              <code>{host}</code>
            </td>
            <td>taken away</td>
            <td>the end of the session</td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
