// What people do on the page, with a real server and a real browser.
import assert from "node:assert/strict";
import { api, callTool, createSession, visit, WAIT } from "./harness.mjs";

const BOX = {
  enabled: true,
  provider: "native",
  workspace_policy: "empty",
  repo_source: { type: "none" },
  tools: ["bash", "read", "write", "edit", "ls", "glob", "grep", "rm"],
  setup_commands: ["echo from the setup command"],
  rewind: { points: "layers" },
};

/** The agent types that the journeys use. */
export async function prepare() {
  await api("POST", "/agent-types", { id: "page-box", name: "Box", workspace: BOX });
  await api("POST", "/agent-types", {
    id: "page-memory",
    workspace: { enabled: true, provider: "memory", workspace_policy: "empty", repo_source: { type: "none" }, tools: ["read", "write", "edit", "ls", "rm", "grep"] },
  });
}

export async function createAndWatch(browser) {
  const page = await browser.signIn();
  assert.ok(!page.url().includes("sign-in"), "the code must not stay in the address");
  await page.getByRole("button", { name: "New session" }).click();
  const dialog = page.getByRole("dialog", { name: "New session" });
  await dialog.locator("select").selectOption("page-box");
  await dialog.locator("textarea").first().fill("Count the words of a file");
  await dialog.locator("textarea").last().fill("ticket=PAGE-1");
  await dialog.getByRole("button", { name: "Preview" }).click();
  await dialog.getByText("decided by the role").waitFor();
  await browser.checkAccessibility(page, "new session");
  await browser.picture(page, "1-new-session", true);
  await dialog.getByRole("button", { name: "Create session" }).click();
  await page.getByRole("heading", { name: "Count the words of a file" }).waitFor();
  await page.locator("header .badge", { hasText: "active" }).waitFor();
  await page.getByText("echo from the setup command").first().waitFor();

  // A call of the agent appears by itself.
  const id = /sessions\/(ses_[0-9a-z]+)/.exec(page.url())[1];
  await callTool(id, "write", { path: "words.txt", content: "one two three\n" });
  await page.getByText("words.txt").first().waitFor();
  await page.getByLabel("Command", { exact: true }).fill("wc -w words.txt; sleep 1; echo the end");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("log", { name: "Output" }).getByText("the end").waitFor();
  await browser.checkAccessibility(page, "overview");
  await browser.picture(page, "1-overview", true);

  // A terminal, in colours that a style attribute would set.
  await page.getByRole("link", { name: "Terminal" }).click();
  await page.getByRole("button", { name: "New terminal" }).click();
  await page.locator(".xterm-screen").waitFor();
  await page.locator(".terminal-box").click();
  await page.keyboard.type("printf '\\e[38;2;255;140;0m%s\\e[0m\\n' shown; cat words.txt\n");
  const screen = page.locator(".xterm-accessibility, .xterm-rows");
  await screen.getByText("one two three").first().waitFor();
  await browser.picture(page, "1-terminal", true);
  // The same terminal is there after a reload.
  await page.reload();
  await screen.getByText("one two three").first().waitFor();
  const execs = await api("GET", `/sessions/${id}/execs`);
  assert.equal(execs.items.filter((exec) => exec.pty).length, 1, "a reload must not start another terminal");

  await page.getByRole("link", { name: "Sessions", exact: true }).first().click();
  await page.getByLabel("Metadata, as key=value").fill("ticket=PAGE-1");
  await page.getByLabel("Metadata, as key=value").press("Enter");
  await page.getByText("1 shown").waitFor();
  await browser.checkAccessibility(page, "sessions");
  await browser.picture(page, "1-sessions", true);
  return id;
}

export async function findFailureAndFork(browser) {
  const session = await createSession("page-box", { task: { prompt: "Repair the parser" } });
  await callTool(session.id, "write", { path: "parser.py", content: "def parse(text):\n    return text.split(',')\n" });
  await callTool(session.id, "bash", { command: "rm parser.py; echo broken > parser.py; exit 7" });
  await callTool(session.id, "bash", { command: "echo later > later.txt" });
  const page = await browser.signIn();
  await visit(page, `/sessions/${session.id}/timeline`);
  await page.getByLabel("Kind of rows").selectOption("bad");
  const failed = page.getByRole("button", { name: /bash.*exit 7/ });
  await failed.click();
  await page.getByText("exit code 7").first().waitFor();
  await browser.checkAccessibility(page, "timeline");
  await browser.picture(page, "2-timeline", true);
  await page.getByRole("link", { name: "Files at this event" }).click();
  await page.getByText("+broken").waitFor();
  // The tree shows the present files.
  await page.locator(".tree").getByText("later.txt", { exact: true }).waitFor();
  assert.equal(await page.locator(".diff").getByText("later.txt").count(), 0, "the diff is that of the past");
  await browser.picture(page, "2-files-then");
  await page.goBack();
  await page.getByRole("button", { name: "Fork before this call" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true }).click();
  await page.waitForURL((url) => url.hash.startsWith("#/sessions/ses_") && !url.hash.includes(session.id), { timeout: WAIT });
  await page.locator("header .badge", { hasText: "active" }).waitFor();
  const fork = /sessions\/(ses_[0-9a-z]+)/.exec(page.url())[1];
  const shown = await api("GET", `/sessions/${fork}`);
  assert.equal(shown.cloned_from, session.id);
  const read = await callTool(fork, "read", { path: "parser.py" });
  assert.match(read.result.content, /split/, "the fork has the file from before the call");
  await visit(page, `/sessions/${session.id}/timeline`);
  await page.getByRole("heading", { name: "Forks" }).waitFor();
  await page.getByRole("link", { name: "Compare them" }).click();
  await page.locator(".columns .panel").first().getByText("parser.py").first().waitFor();
  // The fork begins with the files from before the call, so it has no changes of its own.
  await page.locator(".columns .panel").nth(1).getByText("0 files changed").waitFor();
  await browser.checkAccessibility(page, "compare");
  await browser.picture(page, "2-compare", true);
  return session.id;
}

export async function editAndDiff(browser) {
  const session = await createSession("page-memory", { task: { prompt: "Write the notes" } });
  await callTool(session.id, "write", { path: "notes.md", content: "# Notes\n\nfirst line\n" });
  const page = await browser.signIn();
  await visit(page, `/sessions/${session.id}/files`);
  await page.getByRole("button", { name: /notes\.md/ }).click();
  const editor = page.locator(".cm-content");
  await editor.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("second line from the page");
  await browser.checkAccessibility(page, "editor");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText(/Saved at/).waitFor();
  await browser.picture(page, "3-editor", true);
  const file = await callTool(session.id, "read", { path: "notes.md" });
  assert.match(file.result.content, /second line from the page/);
  await page.getByRole("button", { name: "Changes" }).click();
  await page.getByText("+second line from the page").waitFor();
  await browser.checkAccessibility(page, "changes");
  await browser.picture(page, "3-changes", true);
  // Another writer came first: the page must not overwrite it.
  await page.getByRole("button", { name: /notes\.md/ }).first().click();
  await editor.click();
  await page.keyboard.type("x");
  await callTool(session.id, "write", { path: "notes.md", content: "of the agent\n", mode: "overwrite" }).catch(() => callTool(session.id, "edit", { path: "notes.md", old_string: "first line", new_string: "line of the agent" }));
  browser.expected = /412/;
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("The file was changed since you opened it").waitFor();
  browser.expected = undefined;
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download", exact: true }).click()]);
  assert.equal(download.suggestedFilename(), "notes.md");
}

export async function destructiveActionsAsk(browser) {
  const session = await createSession("page-box", { task: { prompt: "To be closed" } });
  await callTool(session.id, "write", { path: "a.txt", content: "first\n" });
  await callTool(session.id, "bash", { command: "echo second > a.txt" });
  const page = await browser.signIn();
  await visit(page, `/sessions/${session.id}/timeline`);
  await page.getByRole("button", { name: /write.*a\.txt/ }).click();
  await page.getByRole("button", { name: "Rewind to here" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("go back to how they were").waitFor();
  await browser.picture(page, "5-rewind");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.match((await callTool(session.id, "read", { path: "a.txt" })).result.content, /second/, "a cancelled rewind changes nothing");
  await page.getByRole("button", { name: "Rewind to here" }).click();
  await dialog.getByRole("button", { name: "Rewind" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.match((await callTool(session.id, "read", { path: "a.txt" })).result.content, /first/);

  await visit(page, `/sessions/${session.id}/files?path=a.txt`);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.keyboard.press("Escape");
  assert.equal((await callTool(session.id, "read", { path: "a.txt" })).ok, true, "Escape deletes nothing");

  await visit(page, `/sessions/${session.id}`);
  await page.getByRole("button", { name: "Close", exact: true }).click();
  await dialog.getByText("This cannot be undone").waitFor();
  await browser.checkAccessibility(page, "close dialog");
  await browser.picture(page, "5-close", true);
  assert.equal((await api("GET", `/sessions/${session.id}`)).status, "active");
  await dialog.getByRole("button", { name: "Close session" }).click();
  await page.locator("header .badge", { hasText: "closed" }).waitFor();

  // Several at once, from the list.
  const more = [await createSession("page-memory", { metadata: { batch: "close-many" } }), await createSession("page-memory", { metadata: { batch: "close-many" } })];
  await visit(page, "/sessions?metadata=batch%3Dclose-many");
  for (const one of more) await page.getByLabel(`Select ${one.id}`).check();
  await page.getByRole("button", { name: "Close 2" }).click();
  await dialog.getByRole("button", { name: "Close 2 sessions" }).click();
  await dialog.waitFor({ state: "detached" });
  for (const one of more) assert.match((await api("GET", `/sessions/${one.id}`)).status, /clos/);
}

/** Signs in and out; a link works once; a revoked token ends its pages. */
export async function signIn(browser) {
  const link = await api("POST", "/sign-in-links");
  const page = await browser.context.newPage();
  await browser.context.clearCookies();
  browser.expected = /401/;
  await page.goto(process.env.STEAD_URL);
  await page.getByText("stead open").waitFor();
  await browser.checkAccessibility(page, "signed out");
  await browser.picture(page, "0-signed-out", true);
  await page.goto(process.env.STEAD_URL + link.path);
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  const [cookie] = await browser.context.cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["stead_page", true, "Strict"]);
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)), "{}{}");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("This browser is not signed in").waitFor();
  // A copy of the cookie is of no use after the sign-out.
  const again = await fetch(`${process.env.STEAD_URL}/api/v1/whoami`, { headers: { Cookie: `${cookie.name}=${cookie.value}`, "X-Stead-Page": "1" } });
  assert.equal(again.status, 401);
  await page.goto("about:blank");
  await page.goto(process.env.STEAD_URL + link.path);
  await page.getByText("has been used or has expired").waitFor();

  const token = await api("POST", "/tokens", { name: "page-viewer", role: "viewer" });
  const viewer = await browser.signIn(token.token);
  await viewer.getByText("viewer", { exact: true }).waitFor();
  assert.equal(await viewer.getByRole("button", { name: "New session" }).count(), 0, "a viewer creates no sessions");
  await api("DELETE", `/tokens/${token.id}`);
  await viewer.getByText("This browser is not signed in").waitFor();
  browser.expected = undefined;
}
