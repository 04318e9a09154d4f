// Every other screen: it shows, has no serious accessibility problem, and reports no error.
import assert from "node:assert/strict";
import { api, callTool, createSession, visit } from "./harness.mjs";

export async function everyScreen(browser, session) {
  await api("POST", "/content/page-pack/versions", { files: { "prompts/coder/system.md": "You are careful.\n" } }).catch(() => undefined);
  await api("PUT", "/projects/page-project", { default_branch: "main" });
  const page = await browser.signIn();
  const screens = [
    [`/sessions/${session}/replay`, "fold to exactly the live state"],
    [`/sessions/${session}/prompt`, "Prompt sections"],
    [`/sessions/${session}/ports`, "Ports"],
    [`/sessions/${session}/network`, "Refused connections"],
    ["/agent-types", "page-box"],
    ["/agent-types/page-box", "Declaration"],
    ["/projects", "page-project"],
    ["/projects/page-project", "Settings"],
    ["/projects/+platform", "Settings of all sessions"],
    ["/operations/providers", "native"],
    ["/operations/storage", "Images"],
    ["/operations/content", "Content"],
    ["/operations/audit", "Audit log"],
    ["/operations/secrets", "Secrets"],
    ["/operations/tokens", "Tokens"],
    ["/operations/metrics", "Sessions by status"],
    ["/compare", "Nothing to compare"],
  ];
  for (const [address, text] of screens) {
    await visit(page, address);
    await page.getByText(text).first().waitFor();
    // A session has an open stream, so the network is never idle.
    await page.locator(".loading").first().waitFor({ state: "detached" });
    await browser.checkAccessibility(page, address);
    await browser.picture(page, `9${address.replaceAll("/", "-").replace(session, "session")}`, true);
    browser.checkNoErrors(address);
  }
  // The form shows the server's own validation.
  await visit(page, "/agent-types/page-box");
  const text = page.getByLabel("AgentTypeDeclaration");
  const declaration = JSON.parse(await text.inputValue());
  await text.fill(JSON.stringify({ ...declaration, workspace: { ...declaration.workspace, provider: "nowhere" } }));
  browser.expected = /400/;
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").getByText("workspace.provider", { exact: true }).waitFor();
  browser.expected = undefined;
  // Keys alone reach the first session.
  await visit(page, "/sessions");
  await page.locator(".session-row a").first().waitFor();
  await page.locator(".session-row a").first().focus();
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "Parts" }).waitFor();
}

const CORPUS = [
  "<script>globalThis.broken=1</script>",
  "<img src=x onerror=globalThis.broken=1>",
  "\"><svg onload=globalThis.broken=1>",
  "javascript:globalThis.broken=1//",
  "'-globalThis.broken=1-'",
  "</textarea></title><iframe srcdoc='<script>parent.broken=1</script>'>",
  "\u202Eevil\u0000\u001b]0;title\u0007",
  "{{constructor.constructor('globalThis.broken=1')()}}",
];

const ASK = `
import socket, ssl, struct
def ask(name):
    labels = b"".join(bytes([len(part)]) + part for part in name.split(b".")) + b"\\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.settimeout(10)
        resolver.sendto(struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + struct.pack(">2H", 1, 1), ("198.18.0.1", 53))
        return resolver.recv(512)
for name in [b"<img src=x onerror=globalThis=1>.example.com", b"'-globalThis.broken=1-'.example.com"]:
    try:
        answer = ask(name)
        if answer[6:8] == b"\\0\\0":
            continue  # the resolver gave no address
        address = socket.inet_ntoa(answer[-4:])
        with socket.create_connection((address, 443), timeout=10) as stream:
            context = ssl._create_unverified_context()
            context.wrap_socket(stream, server_hostname="api.example.com")
    except OSError as error:
        print(error)
`;

/** Everything that a box or an agent can write is text. */
export async function hostileText(browser) {
  const all = CORPUS.join(" ");
  const session = await createSession("page-box", { task: { prompt: all.replace("\0", ""), id: "<b>id</b>" }, metadata: { "<i>key</i>": all.replace("\0", "") } });
  const id = session.id;
  await callTool(id, "bash", { command: `cat <<'END'\n${all.replace("\0", "")}\nEND\ntouch '<img src=x onerror=globalThis.broken=1>.txt' 'javascript:broken.html'; printf '<h1>x</h1>' > page.html; cat <<'END' >&2\n${all.replace("\0", "")}\nEND\nexit 1` });
  await callTool(id, "write", { path: "<svg onload=globalThis.broken=1>.md", content: all.replace("\0", "") }).catch(() => undefined);
  await callTool(id, "read", { path: "</pre><script>globalThis.broken=1</script>" }).catch(() => undefined);
  const exec = await api("POST", `/sessions/${id}/execs`, { command: `printf '%s\\n' '${CORPUS[1]}' '${CORPUS[2]}'; printf '\\e]8;;javascript:broken=1\\e\\\\link\\e]8;;\\e\\\\'` });
  assert.equal(exec.status, "finished");
  await api("POST", `/sessions/${id}/tools/${encodeURIComponent("git")}`, { command: CORPUS[0] }).catch(() => undefined);
  const page = await browser.signIn();
  const check = async (where) => {
    await page.waitForTimeout(500);
    assert.equal(await page.evaluate(() => globalThis.broken), undefined, where);
    assert.equal(await page.locator("iframe, main img[src=x], main script, main svg[onload]").count(), 0, where);
    browser.checkNoErrors(where);
  };
  await visit(page, "/sessions");
  await page.getByText("<script>globalThis.broken=1</script>").first().waitFor();
  await check("list");
  await visit(page, `/sessions/${id}`);
  await page.getByRole("button", { name: "Output" }).first().click();
  await page.getByRole("log").getByText("onerror").first().waitFor();
  await check("overview");
  await browser.picture(page, "8-hostile-overview");
  await visit(page, `/sessions/${id}/timeline`);
  const rows = page.locator("button.call-row");
  await rows.first().waitFor();
  for (let index = 0; index < (await rows.count()); index += 1) {
    await rows.nth(index).click();
    await page.locator(".detail summary").click();
  }
  await check("timeline");
  await visit(page, `/sessions/${id}/files`);
  await page.locator(".tree button").first().waitFor();
  for (const button of await page.locator(".tree button").all()) {
    await button.click();
    await page.locator(".cm-content").waitFor();
  }
  await page.getByRole("button", { name: "Changes" }).click();
  await page.locator(".diff").waitFor();
  await check("files");
  await visit(page, `/compare?ids=${id}`);
  await page.locator(".columns .diff").waitFor();
  await check("compare");
  await visit(page, "/operations/audit");
  await page.getByRole("cell", { name: "refusal" }).first().waitFor();
  await check("audit");
  // A box can ask its resolver for any bytes, and name any host in a TLS handshake.
  const fetcher = await createSession("page-fetcher", {});
  await callTool(fetcher.id, "bash", { command: `cat > ask.py <<'END'\n${ASK}\nEND\npython3 ask.py` });
  await visit(page, `/sessions/${fetcher.id}/network`);
  await page.getByText("Refused connections").waitFor();
  await check("network");
  await visit(page, `/sessions/${fetcher.id}/timeline`);
  await rows.first().waitFor();
  await check("timeline of the network");
  // A file of a box is never a page of this origin.
  const file = await page.evaluate(async (path) => {
    const response = await fetch(path, { headers: { "X-Stead-Page": "1" } });
    return [response.headers.get("content-type"), response.headers.get("x-content-type-options")];
  }, `/api/v1/sessions/${id}/files/page.html`);
  assert.deepEqual(file, ["application/octet-stream", "nosniff"]);
}
