/** Texts for people. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} m ${Math.round((ms % 60_000) / 1000)} s`;
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} m`;
  return `${Math.round(ms / 86_400_000)} d`;
}

export function bytes(count: number | null | undefined): string {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** Parses `4G`, `512M` or a plain number of bytes, as limits are written. */
export function parseSize(text: string | number | null | undefined): number | undefined {
  if (typeof text === "number") return text;
  const found = /^(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B?)$/i.exec(text ?? "");
  if (!found) return undefined;
  const power = { "": 0, K: 1, M: 2, G: 3, T: 4 }[found[2]!.toUpperCase()] ?? 0;
  return Number(found[1]) * 1024 ** power;
}

export function ago(time: string | number | Date, now = Date.now()): string {
  const seconds = Math.round((now - new Date(time).getTime()) / 1000);
  const [value, unit] = span(Math.abs(seconds));
  if (Math.abs(seconds) < 5) return "now";
  return seconds >= 0 ? `${value} ${unit} ago` : `in ${value} ${unit}`;
}

function span(seconds: number): [number, string] {
  if (seconds < 60) return [seconds, "s"];
  if (seconds < 3600) return [Math.round(seconds / 60), "min"];
  if (seconds < 86_400 * 2) return [Math.round(seconds / 3600), "h"];
  return [Math.round(seconds / 86_400), "d"];
}

export const when = (time: string | number | Date) =>
  new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const clock = (time: string | number | Date) =>
  new Date(time).toLocaleTimeString(undefined, { hour12: false, hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const shortId = (id: string) => (id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-5)}` : id);

export const number = (value: number) => value.toLocaleString("en");

export const words = (text: string) => text.replaceAll("_", " ");

export const plural = (count: number, one: string) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;
