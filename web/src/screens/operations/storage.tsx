/** Images, and what takes how much of the disk. */
import type { Who } from "../../app";
import { del, get } from "../../api/client";
import { bytes, number, shortId } from "../../format";
import { useResource } from "../../resource";
import { href } from "../../router";
import { Ago, Badge, Button, Card, Facts, Failure, Loading, Meter, Table } from "../../ui/basics";
import { useConfirm } from "../../ui/dialog";
import { SetupResults } from "./setup-results";

export function Storage({ who }: { who: Who }) {
  const images = useResource((signal) => get("/api/v1/images", { signal }), []);
  const platform = !who.project && who.permissions.includes("usage:read");
  const usage = useResource(async (signal) => (platform ? await get("/api/v1/usage", { signal }) : undefined), [platform]);
  const [ask, question] = useConfirm();
  const data = usage.data;
  return (
    <>
      {platform && (
        <Card title="Disk" actions={<span class="muted">{bytes(data?.total_bytes)}</span>}>
          {usage.error && <Failure error={usage.error} />}
          {usage.loading && <Loading what="Measuring" />}
          {data && (
            <div class="stack">
              <Facts
                items={[
                  ["Layers", `${bytes(data.layers.bytes)} in ${number(data.layers.count)}, ${number(data.layers.held_count)} in use`],
                  ["Blobs", `${bytes(data.blobs.bytes)} in ${number(data.blobs.count)}`],
                  ["Mirrors", `${bytes(data.mirrors.reduce((sum, one) => sum + one.bytes, 0))} in ${data.mirrors.length}`],
                ]}
              />
              {data.workspaces.length > 0 && (
                <Table head={["Workspace of", "Provider", "Own", "Shared", ""]} label="Disk usage of workspaces">
                  {[...data.workspaces].sort((a, b) => (b.own_bytes ?? 0) - (a.own_bytes ?? 0)).slice(0, 100).map((one) => (
                    <tr key={one.workspace}>
                      <td><a href={href(["sessions", one.session])}>{shortId(one.session)}</a></td>
                      <td>{one.provider}</td>
                      <td class="nowrap">{bytes(one.own_bytes)}</td>
                      <td class="nowrap">{bytes(one.shared_bytes)}</td>
                      <td style={{ width: "30%" }}><Meter label="Share of the disk usage" value={one.own_bytes ?? 0} most={data.total_bytes} /></td>
                    </tr>
                  ))}
                </Table>
              )}
              {data.mirrors.length > 0 && (
                <Table head={["Mirror", "Size", ""]} label="Mirrors">
                  {data.mirrors.map((mirror) => (
                    <tr key={mirror.url}>
                      <td><code>{mirror.url}</code></td>
                      <td>{bytes(mirror.bytes)}</td>
                      <td>{mirror.held && <Badge status="in use" kind="info" />}</td>
                    </tr>
                  ))}
                </Table>
              )}
            </div>
          )}
        </Card>
      )}
      {platform && <SetupResults who={who} />}
      <Card title="Images">
        {images.error && <Failure error={images.error} />}
        {images.data?.items.length === 0 && <p class="muted">No image is imported: `stead image import`.</p>}
        {Boolean(images.data?.items.length) && (
          <Table head={["Name", "Project", "Size", "Files", "Imported", ""]} label="Images">
            {images.data!.items.map((image) => (
              <tr key={`${image.project}/${image.name}`}>
                <td>{image.name} <div><code class="muted">{image.digest.slice(0, 19)}…</code></div></td>
                <td>{image.project ?? "platform"}</td>
                <td>{bytes(image.bytes)}</td>
                <td>{number(image.files)}</td>
                <td class="nowrap"><Ago time={image.imported_at} /></td>
                <td class="right">
                  {who.permissions.includes("images:write") && (
                    <Button small kind="danger" onClick={() => ask({ title: `Remove the image ${image.name}?`, text: "Sessions that use it keep it until they end.", action: "Remove", run: () => del("/api/v1/images/{name}", { path: { name: image.name } }).then(images.reload) })}>
                      Remove
                    </Button>
                  )}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Card>
      {question}
    </>
  );
}
