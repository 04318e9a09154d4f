/** Content that agents get: its names, versions and differences. */
import { get } from "../../api/client";
import { bytes, plural } from "../../format";
import { useResource } from "../../resource";
import { href, type Route } from "../../router";
import { Ago, Badge, Card, Empty, Failure, Loading, Table } from "../../ui/basics";

export function Content({ route }: { route: Route }) {
  const name = route.query.get("name");
  return name ? <History name={name} version={Number(route.query.get("version")) || undefined} /> : <All />;
}

function All() {
  const content = useResource((signal) => get("/api/v1/content", { query: { limit: 500 }, signal }), []);
  if (content.error) return <Failure error={content.error} />;
  if (!content.data) return <Loading />;
  if (!content.data.items.length) return <Empty title="No content">`stead content push` stores prompts, tools and settings for agents.</Empty>;
  return (
    <Card title="Content">
      <Table head={["Name", "Newest version", "Files", "Pushed by", "Pushed"]} label="Content">
        {content.data.items.map((one) => (
          <tr key={one.name}>
            <td><a href={href(["operations", "content"], { name: one.name })}>{one.name}</a></td>
            <td>{one.version} {!one.valid && <Badge status="not valid" kind="bad" />}</td>
            <td>{plural(one.files, "file")}, {bytes(one.bytes)}</td>
            <td>{one.pushed_by}</td>
            <td><Ago time={one.created_at} /></td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

function History({ name, version }: { name: string; version?: number }) {
  const history = useResource((signal) => get("/api/v1/content/{name}", { path: { name }, signal }), [name]);
  const diff = useResource(
    async (signal) => (version && version > 1 ? await get("/api/v1/content/{name}/diff", { path: { name }, query: { from: version - 1, to: version }, signal }) : undefined),
    [name, version],
  );
  if (history.error) return <Failure error={history.error} />;
  if (!history.data) return <Loading />;
  return (
    <>
      <Card title={name} actions={<a href={href(["operations", "content"])}>All content</a>}>
        <Table head={["Version", "Files", "Pushed by", "Pushed", ""]} label="Versions">
          {[...history.data.versions].reverse().map((one) => (
            <tr key={one.version}>
              <td>{one.version} {!one.valid && <Badge status="not valid" kind="bad" />}</td>
              <td>{plural(one.files, "file")}, {bytes(one.bytes)}</td>
              <td>{one.pushed_by}</td>
              <td><Ago time={one.created_at} /></td>
              <td class="right">{one.version > 1 && <a href={href(["operations", "content"], { name, version: String(one.version) })}>Changes</a>}</td>
            </tr>
          ))}
        </Table>
      </Card>
      {diff.error && <Failure error={diff.error} />}
      {diff.data && (
        <Card title={`Changes from version ${diff.data.from} to ${diff.data.to}`}>
          <Table head={["File", "Change"]} label="Changed files">
            {diff.data.changes.map((change) => (
              <tr key={change.path}>
                <td><code>{change.path}</code></td>
                <td>{change.kind}</td>
              </tr>
            ))}
          </Table>
        </Card>
      )}
    </>
  );
}
