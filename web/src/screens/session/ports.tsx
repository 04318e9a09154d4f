/** Servers in the box: the ports that programs listen on, each with a link for the browser. */
import { useState } from "preact/hooks";
import { get, post, type Session } from "../../api/client";
import { useResource } from "../../resource";
import { Button, Card, Copy, Empty, Failure, Loading, Notice, Table } from "../../ui/basics";

export function Ports({ session, mayUse }: { session: Session; mayUse: boolean }) {
  const runs = session.status === "active" && session.workspace !== null && session.workspace.provider !== "memory";
  const ports = useResource(
    async (signal) => (runs ? (await get("/api/v1/sessions/{id}/ports", { path: { id: session.id }, signal })).items : []),
    [session.id, runs],
    3000,
  );
  const [error, setError] = useState<Error>();
  const [link, setLink] = useState<string>();

  function open(port: number) {
    setError(undefined);
    setLink(undefined);
    // A tab that is opened after the request could be blocked as a popup.
    const tab = window.open("about:blank", "_blank");
    if (tab) tab.opener = null;
    post("/api/v1/sessions/{id}/ports/{port}:open", { path: { id: session.id, port }, body: {} }).then(
      ({ url }) => {
        if (!/^https?:/.test(url)) throw new Error("The server sent a link that is not a web address.");
        if (tab) tab.location.replace(url);
        else setLink(url);
      },
      (failure: Error) => {
        tab?.close();
        setError(failure);
      },
    ).catch(setError);
  }

  if (!session.workspace || session.workspace.provider === "memory") {
    return <Empty title="No ports">A workspace in memory runs no programs.</Empty>;
  }
  if (!runs) return <Empty title="No ports">The session is {session.status}, so no program in it listens.</Empty>;
  return (
    <Card title="Ports">
      {error && <Failure error={error} />}
      {ports.error && <Failure error={ports.error} />}
      {link && (
        <Notice kind="info" title="The browser opened no tab">
          <a href={link} target="_blank" rel="noopener noreferrer" onClick={() => setLink(undefined)}>
            Open the port
          </a>
          . The link works once, within a minute.
        </Notice>
      )}
      {!ports.data && ports.loading && <Loading />}
      {ports.data?.length === 0 && (
        <Empty title="Nothing listens">
          Start a server in the box on <code>127.0.0.1</code> or <code>0.0.0.0</code>. It appears here by itself. Only ports that you may open are listed.
        </Empty>
      )}
      {Boolean(ports.data?.length) && (
        <Table head={["Port", "", "Address in the box", "From a terminal"]} label="Ports">
          {ports.data!.map((one) => (
            <tr key={`${one.port} ${one.address}`}>
              <td>
                <strong>{one.port}</strong>
              </td>
              <td>
                {mayUse && (
                  <Button small kind="primary" label={`Open port ${one.port} in a new tab`} onClick={() => open(one.port)}>
                    Open
                  </Button>
                )}
              </td>
              <td>
                <code>{one.address}</code>
              </td>
              <td class="nowrap">
                <code>stead forward {session.id} {one.port}</code>
                <Copy text={`stead forward ${session.id} ${one.port}`} what={`the command for ${one.port}`} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      <p class="muted">Each port has an address of its own, so its page cannot use this page, its cookie or the API.</p>
    </Card>
  );
}
