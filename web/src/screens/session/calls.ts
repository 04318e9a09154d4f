/** Folds the events of a journal into rows for people: calls with their start, end and outcome. */
import { words } from "../../format";
import type { JournalEvent } from "./journal";

export type Kind = "good" | "bad" | "warn" | "info" | "idle";

export interface Row {
  key: string;
  /** Event that starts the row, and the one that ends it. */
  seq: number;
  endSeq: number;
  title: string;
  text: string;
  message: string;
  kind: Kind;
  /** `group` rows are runs and steps. */
  form: "call" | "event" | "group";
  start: number;
  ms: number | undefined;
  running: boolean;
  depth: number;
  events: JournalEvent[];
}

type Fields = Record<string, unknown>;
const object = (value: unknown): Fields => (value && typeof value === "object" ? (value as Fields) : {});
const text = (value: unknown): string => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));

/** The most telling argument of a call, on one line. */
export function summary(value: unknown): string {
  const fields = object(value);
  for (const name of ["command", "path", "pattern", "paths", "source", "code", "url", "query"]) {
    if (fields[name] !== undefined) return text(fields[name]).replace(/\s+/g, " ").slice(0, 200);
  }
  const all = Object.keys(fields).length ? JSON.stringify(fields) : "";
  return all.slice(0, 200);
}

const STARTS: Record<string, string> = { ToolCallStarted: "call", FileOperationStarted: "call", ExecStarted: "exec", BoundCallStarted: "call" };
const ENDS = ["Finished", "Failed", "Interrupted"];

export function fold(events: JournalEvent[]): Row[] {
  const rows: Row[] = [];
  const open = new Map<string, Row>();
  let depth = 0;
  const push = (event: JournalEvent, key: string, rest: Partial<Row>): Row => {
    const row: Row = {
      key, seq: event.seq, endSeq: event.seq, title: spoken(event.type), text: "", message: "", kind: "idle", form: "event",
      start: Date.parse(event.at), ms: undefined, running: false, depth, events: [event], ...rest,
    };
    rows.push(row);
    return row;
  };

  for (const event of events) {
    const stem = event.type.replace(/(Started|Finished|Failed|Interrupted)$/, "");
    const idField = STARTS[`${stem}Started`];
    if (event.type in STARTS) {
      const id = String(event[idField!]);
      // A bound call of a built-in tool is followed by the call of that tool, which says the same.
      open.set(id, push(event, `${stem} ${id}`, { form: "call", kind: "info", running: true, ...opening(event) }));
    } else if (idField && ENDS.some((end) => event.type === stem + end)) {
      const id = String(event[idField]);
      const row = open.get(id) ?? push(event, `${stem} ${id}`, { form: "call", title: spoken(stem) });
      open.delete(id);
      finish(row, event);
    } else if (event.type === "InitStepStarted") {
      const id = `init ${event["attempt"]} ${event["step"]}`;
      open.set(id, push(event, id, { form: "call", kind: "info", running: true, title: "Set up", text: words(text(event["action"])) }));
    } else if (event.type === "InitStepFinished") {
      const id = `init ${event["attempt"]} ${event["step"]}`;
      finish(open.get(id) ?? push(event, id, { form: "call", title: "Set up" }), event);
      open.delete(id);
    } else if (event.type === "InitStepProgress" || event.type === "ProvisionProgress") {
      continue;
    } else if (event.type === "RunStarted") {
      depth = 0;
      push(event, `run ${event["run"]}`, { form: "group", title: "Run", text: `${text(event["model"])} (${text(event["provider"])})`, kind: "info" });
      depth = 1;
    } else if (event.type === "StepStarted") {
      depth = 1;
      push(event, `step ${event["run"]} ${event["step"]}`, { form: "group", title: `Step ${text(event["step"])}`, kind: "info" });
      depth = 2;
    } else if (/^Run(Completed|Failed|Cancelled)$/.test(event.type)) {
      depth = 0;
      const kind = event.type === "RunCompleted" ? "good" : event.type === "RunFailed" ? "bad" : "warn";
      push(event, `end ${event.seq}`, { form: "group", title: spoken(event.type), text: text(event["detail"] ?? event["code"]), kind });
    } else {
      push(event, `event ${event.seq}`, other(event));
    }
  }
  return rows;
}

function opening(event: JournalEvent): Partial<Row> {
  if (event.type === "ToolCallStarted") return { title: text(event["tool"]), text: summary(event["arguments"]) };
  if (event.type === "BoundCallStarted") return { title: text(event["name"]), text: summary(event["arguments"]) || "bound call" };
  if (event.type === "ExecStarted") {
    const spec = object(event["spec"]);
    const argv = Array.isArray(spec["argv"]) ? spec["argv"].join(" ") : "";
    return { title: spec["pty"] ? "terminal" : "exec", text: text(spec["command"]) || argv };
  }
  const operation = object(event["operation"]);
  return { title: words(text(operation["operation"])), text: text(operation["path"] ?? operation["name"] ?? operation["to"] ?? "") };
}

function finish(row: Row, event: JournalEvent): void {
  if (row.events[0] !== event) row.events.push(event);
  row.endSeq = event.seq;
  row.running = false;
  const exit = object(event["exit"]);
  const ms = event["duration_ms"] ?? exit["duration_ms"];
  row.ms = typeof ms === "number" ? ms : Date.parse(event.at) - row.start;
  if (row.events[0] === event) row.start -= row.ms;
  const answer = object(event["answer"]);
  const error = object(answer["error"]);
  const failure = object(event["failure"]);
  const result = object(answer["result"]);
  if (event.type.endsWith("Interrupted")) {
    row.kind = "warn";
    row.message = text(event["reason"]);
  } else if (error["code"] || failure["code"]) {
    row.kind = "bad";
    row.message = text(error["message"] ?? failure["message"]);
  } else if (event["exit"] && exit["exit_code"] !== 0) {
    row.kind = exit["killed"] ? "warn" : "bad";
    row.message = exit["oom"] ? "out of memory" : exit["timed_out"] ? "timed out" : `exit code ${text(exit["exit_code"])}`;
  } else if (typeof result["exit_code"] === "number" && result["exit_code"] !== 0) {
    row.kind = "bad";
    row.message = `exit code ${result["exit_code"]}`;
  } else {
    row.kind = "good";
    row.message = text(answer["message"]);
  }
}

function other(event: JournalEvent): Partial<Row> {
  const failure = object(event["failure"]);
  const message = text(event["message"] ?? failure["message"] ?? event["reason"] ?? event["detail"]);
  if (event.type === "NetworkRefused") {
    const layer = event["layer"] ? ` by the layer ${words(text(event["layer"]))}` : "";
    return { title: "Network refused", text: contact(event), message: `${words(text(event["why"]))}${layer}`, kind: "bad" };
  }
  if (event.type === "NetworkOpened") return { title: "Network", text: contact(event), kind: "idle" };
  if (event.type === "PortOpened") return { text: text(event["port"]), kind: "idle" };
  if (event.type.endsWith("Refused")) {
    const name = text(event["tool"] ?? event["name"] ?? (event["to"] ? `rewind to ${text(event["to"])}` : ""));
    return { form: "call", title: name || spoken(event.type), text: `refused: ${text(event["code"])}`, message, kind: "bad" };
  }
  if (event.type === "WarningRaised") return { title: "Warning", text: words(text(event["code"])), message, kind: "warn" };
  if (/Failed|Lost/.test(event.type)) return { text: message, message, kind: "bad" };
  const detail = event["provider"] ?? event["mode"] ?? event["section_key"] ?? event["with"] ?? event["host"] ?? "";
  const good = ["SessionActivated", "WorkspaceReady", "SessionResumed", "WorkspaceApplied"].includes(event.type);
  return { text: text(detail), message, kind: good ? "good" : "idle" };
}

function contact(event: JournalEvent): string {
  return event["port"] ? `${text(event["host"])}:${text(event["port"])}` : text(event["host"]);
}

/** `ToolCallStarted` as "Tool call started". */
export function spoken(type: string): string {
  const parts = type.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return parts.charAt(0).toUpperCase() + parts.slice(1);
}

/** What runs now, the latest calls, and the refused ones. */
export function describe(events: JournalEvent[]): { running: Row[]; recent: Row[]; refused: Row[] } {
  const rows = fold(events.slice(-2000)).filter((row) => row.form === "call" && row.title !== "Set up");
  return {
    running: rows.filter((row) => row.running),
    recent: rows.filter((row) => !row.running && !row.text.startsWith("refused")).slice(-6).reverse(),
    refused: rows.filter((row) => row.text.startsWith("refused")),
  };
}

/** Paths that the events of a row changed. */
export function changedFiles(row: Row): { path: string; what: string }[] {
  const found: { path: string; what: string }[] = [];
  for (const event of row.events) {
    const files = object(event["files"]);
    for (const change of Array.isArray(files["changes"]) ? files["changes"] : []) {
      const one = object(change);
      found.push({ path: text(one["path"] ?? one["to"]), what: words(text(one["change"] ?? one["type"] ?? one["kind"] ?? "changed")) });
    }
    const touched = object(files["touched"]);
    for (const path of Array.isArray(touched["wrote"]) ? touched["wrote"] : []) found.push({ path: text(path), what: "wrote" });
    for (const path of Array.isArray(touched["removed"]) ? touched["removed"] : []) found.push({ path: text(path), what: "removed" });
    const more = Number(touched["more"] ?? 0);
    if (more) found.push({ path: `${more} more`, what: "changed" });
  }
  return found;
}
