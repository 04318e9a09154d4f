// Runs the browser tests: STEAD_URL, STEAD_TOKEN and PAGE_ARTEFACTS say where. Arguments choose some by name.
import { Browser } from "./harness.mjs";
import * as journeys from "./journeys.mjs";
import * as network from "./network.mjs";
import * as screens from "./screens.mjs";

const shared = {};
const TESTS = [
  ["sign in", (browser) => journeys.signIn(browser)],
  ["create and watch a session", async (browser) => (shared.session = await journeys.createAndWatch(browser))],
  ["find a failing call and fork before it", (browser) => journeys.findFailureAndFork(browser)],
  ["edit a file and see the diff", (browser) => journeys.editAndDiff(browser)],
  ["follow a port", (browser) => network.followAPort(browser)],
  ["see what a session reached", (browser) => network.seeTheNetwork(browser)],
  ["manage secrets", (browser) => network.manageSecrets(browser)],
  ["kept setup results", (browser) => network.keptSetupResults(browser)],
  ["destructive actions ask first", (browser) => journeys.destructiveActionsAsk(browser)],
  ["hostile text", (browser) => screens.hostileText(browser)],
  ["every screen", (browser) => screens.everyScreen(browser, shared.session)],
];

const wanted = process.argv.slice(2);
await journeys.prepare();
await network.prepare();
let failed = 0;
for (const [name, test] of TESTS.filter(([name]) => !wanted.length || wanted.some((word) => name.includes(word)))) {
  const browser = await Browser.start();
  const started = Date.now();
  try {
    await test(browser);
    browser.checkNoErrors(name);
    console.log(`ok     ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}\n${error.stack}\n${browser.errors.join("\n")}`);
    for (const [index, page] of browser.context.pages().entries()) await browser.picture(page, `failed-${name.replaceAll(" ", "-")}-${index}`).catch(() => undefined);
  } finally {
    await browser.close();
  }
}
process.exit(failed ? 1 : 0);
