/** The audit log: newest first, filtered. */
import { useEffect, useState } from "preact/hooks";
import { get, type Schemas } from "../../api/client";
import { apiDocument } from "../../api/document";
import { shortId, when, words } from "../../format";
import { useResource } from "../../resource";
import { href, replaceQuery, type Route } from "../../router";
import { Button, Card, Empty, Failure, Select, Table } from "../../ui/basics";

type Record_ = Schemas["AuditRecord"];

export function Audit({ route }: { route: Route }) {
  const filters = Object.fromEntries(route.query) as Record<string, string>;
  const [records, setRecords] = useState<Record_[]>([]);
  const [next, setNext] = useState<number | string | null>();
  const [error, setError] = useState<Error>();
  const load = (cursor?: number | string) =>
    get("/api/v1/audit", { query: { ...filters, order: "newest", limit: 100, cursor } as never }).then(
      (page) => {
        setRecords((old) => (cursor ? [...old, ...page.items] : page.items));
        setNext((page as { next_cursor?: number | string | null }).next_cursor ?? null);
        setError(undefined);
      },
      setError,
    );
  useEffect(() => {
    void load();
  }, [route.query.toString()]);
  const types = useResource(async () => (await apiDocument()).components.schemas["AuditType"]?.enum?.map(String) ?? [], []);
  const change = (name: string) => (value: string) => replaceQuery({ ...filters, [name]: value });
  const input = (name: string, label: string, placeholder = label) => (
    <input placeholder={placeholder} aria-label={label} defaultValue={filters[name] ?? ""} onChange={(event) => change(name)(event.currentTarget.value.trim())} />
  );
  return (
    <Card title="Audit log">
      <div class="filters" role="search">
        <Select label="Type" value={filters["type"] ?? ""} onChange={change("type")} options={[["", "Any type"], ...(types.data ?? []).map((type): [string, string] => [type, words(type)])]} />
        {input("session", "Session")}
        {input("actor", "Caller", "Caller, such as user:alice@web")}
        {input("project", "Project")}
        {input("from", "From", "From, 2026-11-17T00:00:00Z")}
        {input("to", "To")}
        <Button onClick={() => void load()}>Refresh</Button>
      </div>
      {error && <Failure error={error} />}
      {records.length === 0 && !error ? (
        <Empty title="No records" />
      ) : (
        <Table head={["Time", "Type", "Caller", "Session", "Detail"]} label="Audit records">
          {records.map((record) => (
            <tr key={record.id}>
              <td class="nowrap">{when(record.at)}</td>
              <td class="nowrap">{words(record.type)}</td>
              <td>{record.actor}</td>
              <td>{record.session && <a href={href(["sessions", record.session])}>{shortId(record.session)}</a>} {record.project && <span class="muted">{record.project}</span>}</td>
              <td>
                <details>
                  <summary class="cut"><code>{JSON.stringify(record.detail).slice(0, 90)}</code></summary>
                  <pre class="box" tabIndex={0}>{JSON.stringify(record.detail, null, 2)}</pre>
                </details>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {next !== null && next !== undefined && <Button onClick={() => void load(next)}>Older records</Button>}
    </Card>
  );
}
