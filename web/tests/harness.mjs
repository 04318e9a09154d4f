// The kit of the browser tests: a real Chromium, a real server, and a page that may not report an error.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const SERVER = process.env.STEAD_URL;
const TOKEN = process.env.STEAD_TOKEN;
const ARTEFACTS = process.env.PAGE_ARTEFACTS;
export const WAIT = 60_000;

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** Sends a request as a program does, with the token. */
export async function api(method, path, body, token = TOKEN) {
  const response = await fetch(`${SERVER}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

export async function createSession(agentType, extra = {}) {
  const session = await api("POST", "/sessions?wait=60", { agent_type: agentType, ...extra });
  assert.equal(session.status, "active", JSON.stringify(session.failure ?? session));
  return session;
}

export const callTool = (session, tool, args) => api("POST", `/sessions/${session}/tools/${tool}`, args);

export class Browser {
  static async start() {
    mkdirSync(ARTEFACTS, { recursive: true });
    const profile = mkdtempSync(join(tmpdir(), "stead-page-"));
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: process.env.PAGE_CHROMIUM ?? "/usr/bin/chromium",
      args: FLAGS,
      viewport: { width: 1360, height: 860 },
      timeout: WAIT,
    });
    context.setDefaultTimeout(WAIT);
    return new Browser(context, profile);
  }

  constructor(context, profile) {
    Object.assign(this, { context, profile, errors: [] });
    context.on("weberror", (error) => this.errors.push(`uncaught: ${error.error().message}`));
    context.on("console", (message) => {
      if (message.type() === "error" && !this.expected?.test(message.text())) this.errors.push(`console: ${message.text()} (${message.location().url})`);
    });
    context.on("dialog", (dialog) => {
      this.errors.push(`a script opened a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
  }

  async close() {
    await this.context.close();
    rmSync(this.profile, { recursive: true, force: true });
  }

  /** Opens a tab that is signed in with a link of this token. */
  async signIn(token = TOKEN) {
    const link = await api("POST", "/sign-in-links", undefined, token);
    const page = await this.context.newPage();
    await page.goto(SERVER + link.path);
    await page.getByRole("navigation", { name: "Screens" }).waitFor();
    return page;
  }

  /** Saves a picture, in light and dark, wide and as on a phone if `all` is true. */
  async picture(page, name, all = false) {
    const take = (suffix) => page.screenshot({ path: join(ARTEFACTS, `${name}${suffix}.png`) });
    await take("");
    if (!all) return;
    await page.emulateMedia({ colorScheme: "dark" });
    await take("-dark");
    await page.setViewportSize({ width: 390, height: 844 });
    await take("-phone-dark");
    await page.emulateMedia({ colorScheme: "light" });
    await take("-phone");
    await page.setViewportSize({ width: 1360, height: 860 });
  }

  /** Fails on violations of the accessibility rules that axe calls serious or critical. */
  async checkAccessibility(page, where) {
    // The policy of the page forbids inline scripts; the debugger may still evaluate this one.
    await page.evaluate(AXE);
    const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    const serious = result.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
    const shown = serious.map((one) => `${one.id}: ${one.help}\n  ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.failureSummary?.split("\n")[1] ?? ""}`).join("\n  ")}`);
    assert.equal(serious.length, 0, `${where}: ${shown.join("\n")}`);
  }

  checkNoErrors(where) {
    assert.deepEqual(this.errors, [], where);
  }
}

export const base = () => SERVER;
export const visit = (page, hash) => page.goto(`${SERVER}/#${hash}`);
