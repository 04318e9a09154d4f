// Ports, network, secrets and setup results, with a real server and a real browser.
import assert from "node:assert/strict";
import { api, callTool, createSession, visit, WAIT } from "./harness.mjs";

const BOX = { enabled: true, provider: "native", workspace_policy: "empty", repo_source: { type: "none" }, tools: ["bash", "read", "write"] };

/** The platform allows names below `example.com`, and the agent type one of them. The tests connect to none. */
export async function prepare() {
  const platform = Object.fromEntries(Object.entries(await api("GET", "/platform")).filter(([, value]) => value !== null));
  await api("PUT", "/platform", { ...platform, network: { agent: { allow: ["*.example.com"] } } });
  await api("POST", "/agent-types", { id: "page-fetcher", workspace: { ...BOX, network: { agent: { allow: ["api.example.com"] } } } });
  await api("POST", "/agent-types", { id: "page-builder", workspace: { ...BOX, setup_commands: ["echo '<img src=x onerror=globalThis.broken=1>' > built.txt"], setup_cache: true } });
}

// A page that tries to reach the page of the server.
const SERVER = `
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("<title>Served</title><h1>Hello from the box</h1><p id=cookie>" + self.headers.get("Cookie", "no cookie") + "</p>").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`;

export async function followAPort(browser) {
  const session = await createSession("page-box", { task: { prompt: "Serve a page" } });
  const page = await browser.signIn();
  await visit(page, `/sessions/${session.id}/ports`);
  await page.getByText("Nothing listens").waitFor();
  await callTool(session.id, "write", { path: "server.py", content: SERVER });
  await callTool(session.id, "bash", { command: "python3 server.py", background: true });
  // The port appears by itself.
  const open = page.getByRole("button", { name: "Open port 8080 in a new tab" });
  await open.waitFor();
  await browser.checkAccessibility(page, "ports");
  await browser.picture(page, "4-ports", true);
  const [tab] = await Promise.all([browser.context.waitForEvent("page"), open.click()]);
  await tab.getByRole("heading", { name: "Hello from the box" }).waitFor();
  assert.match(new URL(tab.url()).hostname, /^8080-ses-.*\.localhost$/);
  assert.ok(!tab.url().includes("ticket"), "the ticket must not stay in the address");
  assert.ok(!(await tab.locator("#cookie").innerText()).includes("stead_page"), "the program sees the cookie of the page");
  assert.equal(await tab.evaluate(() => globalThis.opener), null, "the page of the box can reach the page that opened it");
  await browser.picture(tab, "4-page-of-the-box");
  await tab.close();
  await visit(page, `/sessions/${session.id}/timeline`);
  await page.getByText("Port opened").first().waitFor();

  const token = await api("POST", "/tokens", { name: "port-viewer", role: "viewer" });
  const viewer = await browser.signIn(token.token);
  await visit(viewer, `/sessions/${session.id}/ports`);
  await viewer.getByRole("cell", { name: "8080", exact: true }).waitFor();
  assert.equal(await viewer.getByRole("button", { name: /Open port/ }).count(), 0, "a viewer opens no port");
  await viewer.close();
  await visit(page, `/sessions/${session.id}/ports`);
  await open.waitFor();
  // The page may ask for the ports once more before it knows that the session is closed.
  browser.expected = /409/;
  await api("DELETE", `/sessions/${session.id}`);
  await page.getByText("so no program in it listens").waitFor();
  browser.expected = undefined;
}

export async function seeTheNetwork(browser) {
  const session = await createSession("page-fetcher", { task: { prompt: "Fetch a page" } });
  const page = await browser.signIn();
  await visit(page, `/sessions/${session.id}/network`);
  await page.getByText("No connection was refused").waitFor();
  await page.getByRole("cell", { name: "api.example.com:443", exact: true }).waitFor();
  await callTool(session.id, "bash", { command: "curl -sS --max-time 20 https://other.example.com/ || true" });
  // The refusal appears by itself, with the rule that would allow it.
  const refused = page.getByRole("row", { name: /other\.example\.com:443/ });
  await refused.getByText("not allowed").waitFor();
  await refused.getByText("agent type").waitFor();
  await page.getByRole("button", { name: "Copy the rule for other.example.com" }).waitFor();
  await browser.checkAccessibility(page, "network");
  await browser.picture(page, "4-network", true);

  await page.getByRole("button", { name: "Allow for an hour: other.example.com:443" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  const reachable = async () => (await api("GET", `/sessions/${session.id}/network`)).reachable.map((one) => one.host);
  assert.ok(!(await reachable()).includes("other.example.com"), "a cancelled grant changes nothing");
  await page.getByRole("button", { name: "Allow for an hour: other.example.com:443" }).click();
  await dialog.getByRole("button", { name: "Allow", exact: true }).click();
  await page.getByRole("region", { name: "Allowed hosts" }).getByText("other.example.com:443").waitFor();
  await page.getByText("Changed by an administrator").waitFor();
  await page.getByRole("button", { name: "Take away other.example.com:443" }).click();
  await dialog.getByText("until the session ends").waitFor();
  await dialog.getByRole("button", { name: "Take away", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("region", { name: "Changes of the network" }).getByText("taken away").waitFor();
  assert.ok(!(await reachable()).includes("other.example.com"));
  await visit(page, `/sessions/${session.id}/timeline`);
  await page.getByText("other.example.com:443").first().waitFor();

  await visit(page, "/operations/audit?type=network_refused");
  await page.getByRole("cell", { name: "network refused" }).first().waitFor();
  // The types come from the API document.
  for (const type of ["port opened", "network granted", "secret used"]) await page.getByLabel("Type").locator("option", { hasText: type }).waitFor({ state: "attached" });
}

const VALUE = "sk-value-of-the-page-test";

export async function manageSecrets(browser) {
  await api("PUT", "/projects/page-project", { default_branch: "main" });
  const page = await browser.signIn();
  await visit(page, "/projects/page-project");
  await page.getByText("No secrets").waitFor();
  await page.getByRole("button", { name: "New secret" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/^Name/).fill("model-api");
  await dialog.getByLabel(/^Value/).fill(VALUE);
  await dialog.getByLabel(/^Hosts/).fill("*.example.com");
  browser.expected = /400/;
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByRole("alert").getByText("hosts").first().waitFor();
  browser.expected = undefined;
  await browser.checkAccessibility(page, "new secret");
  await browser.picture(page, "4-new-secret", true);
  await dialog.getByLabel(/^Hosts/).fill("api.example.com files.example.com:8443");
  await dialog.getByLabel(/^Agent types/).fill("page-fetcher");
  await dialog.getByRole("button", { name: "Save" }).click();
  const row = page.getByRole("row", { name: /model-api/ });
  await row.getByText("api.example.com files.example.com:8443").waitFor();
  await row.getByText("version 1").waitFor();
  await browser.checkAccessibility(page, "secrets");
  await browser.picture(page, "4-secrets", true);
  assert.ok(!(await page.content()).includes(VALUE), "the value must not stay in the page");
  const [stored] = (await api("GET", "/secrets?project=page-project")).items;
  assert.deepEqual([stored.hosts, stored.agent_types, stored.as], [["api.example.com", "files.example.com:8443"], ["page-fetcher"], "Bearer {}"]);

  await page.getByRole("button", { name: "Replace model-api" }).click();
  assert.equal(await dialog.getByLabel(/^Value/).inputValue(), "", "the form must not know the value");
  await dialog.getByLabel(/^Value/).fill(`${VALUE}-2`);
  await dialog.getByRole("button", { name: "Save" }).click();
  await row.getByText("version 2").waitFor();
  await page.getByRole("button", { name: "Remove model-api" }).click();
  await page.keyboard.press("Escape");
  assert.equal((await api("GET", "/secrets?project=page-project")).items.length, 1, "Escape removes nothing");
  await page.getByRole("button", { name: "Remove model-api" }).click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await page.getByText("No secrets").waitFor();
}

export async function keptSetupResults(browser) {
  const sessions = [await createSession("page-builder"), await createSession("page-builder")];
  const page = await browser.signIn();
  await visit(page, `/sessions/${sessions[1].id}`);
  await page.getByText("with a kept setup result").waitFor();
  await visit(page, "/operations/storage");
  const row = page.getByRole("row", { name: /page-builder/ });
  await row.getByText("onerror").waitFor();
  assert.equal(await page.evaluate(() => globalThis.broken), undefined, "a setup command is text");
  await browser.checkAccessibility(page, "setup results");
  await browser.picture(page, "4-setup-results", true);
  await page.getByRole("button", { name: "Remove the result of page-builder" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByText("None is kept").waitFor({ timeout: WAIT });
  assert.deepEqual((await api("GET", "/setup-results")).items, []);
}
