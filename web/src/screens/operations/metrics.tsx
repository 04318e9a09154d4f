/** Plots: what sessions reserved per day, and the server's counters while the page is open. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Who } from "../../app";
import { get, send } from "../../api/client";
import { onTheme } from "../../theme";
import { useResource } from "../../resource";
import { Card, Empty, Failure, Loading } from "../../ui/basics";

export function Metrics({ who }: { who: Who }) {
  return (
    <>
      <History />
      {who.permissions.includes("metrics:read") && !who.project && <Live />}
    </>
  );
}

function History() {
  const history = useResource((signal) => get("/api/v1/usage/history", { query: { limit: 500 }, signal }), []);
  if (history.error) return <Failure error={history.error} />;
  if (!history.data) return <Loading />;
  const days = [...new Set(history.data.items.map((row) => row.day))].sort();
  const sum = (field: "sessions_created" | "cpu_seconds" | "session_seconds") =>
    days.map((day) => history.data!.items.filter((row) => row.day === day).reduce((total, row) => total + row[field], 0));
  const times = days.map((day) => Date.parse(day) / 1000);
  if (!days.length) return <Card title="Per day"><Empty title="No use yet" /></Card>;
  return (
    <div class="grid">
      <Card title="Sessions created per day"><Plot times={times} series={[{ label: "sessions", values: sum("sessions_created") }]} bars /></Card>
      <Card title="Reserved CPU hours per day"><Plot times={times} series={[{ label: "CPU h", values: sum("cpu_seconds").map((value) => value / 3600) }]} bars /></Card>
    </div>
  );
}

interface Sample {
  time: number;
  values: Record<string, number>;
}

const EVERY = 5000;
const MOST = 240;

/** Samples of `/metrics`, which the page takes while it is open. */
function Live() {
  const [samples, setSamples] = useState<Sample[]>([]);
  const [error, setError] = useState<Error>();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let closed = false;
    async function take() {
      if (!document.hidden) {
        try {
          const text = await (await send("/metrics", {})).text();
          if (closed) return;
          setSamples((old) => [...old.slice(1 - MOST), { time: Date.now() / 1000, values: parse(text) }]);
          setError(undefined);
        } catch (failure) {
          setError(failure as Error);
        }
      }
      timer = setTimeout(take, EVERY);
    }
    void take();
    return () => {
      closed = true;
      clearTimeout(timer);
    };
  }, []);
  const times = samples.map((sample) => sample.time);
  const gauge = (prefix: string) => names(samples, prefix).map((name) => ({ label: label(name), values: samples.map((sample) => sample.values[name] ?? 0) }));
  const rate = (prefix: string) =>
    names(samples, prefix).map((name) => ({
      label: label(name),
      values: samples.map((sample, index) => {
        const before = samples[index - 1];
        return before ? Math.max(0, ((sample.values[name] ?? 0) - (before.values[name] ?? 0)) / (sample.time - before.time)) : 0;
      }),
    }));
  return (
    <>
      {error && <Failure error={error} />}
      <div class="grid">
        <Card title="Sessions by status"><Plot times={times} series={gauge("stead_sessions{")} /></Card>
        <Card title="Database accesses per second"><Plot times={times} series={rate("stead_database_")} /></Card>
      </div>
      <p class="muted">The live plots begin when this page is opened. For longer times, let Prometheus read /metrics.</p>
    </>
  );
}

function parse(text: string): Record<string, number> {
  const values: Record<string, number> = {};
  for (const line of text.split("\n")) {
    const found = /^([a-z_]+(?:\{[^}]*\})?) ([-+0-9.eE]+)$/.exec(line);
    if (found) values[found[1]!] = Number(found[2]);
  }
  return values;
}

const names = (samples: Sample[], prefix: string) => Object.keys(samples.at(-1)?.values ?? {}).filter((name) => name.startsWith(prefix)).sort().slice(0, 8);
const label = (name: string) => /="([^"]*)"/.exec(name)?.[1] ?? name.replace(/^stead_|_total$/g, "").replaceAll("_", " ");

const COLOURS = ["--accent", "--good", "--warn", "--bad", "--info", "--idle", "--muted", "--text"];

interface PlotProps {
  times: number[];
  series: { label: string; values: number[] }[];
  bars?: boolean;
}

function Plot({ times, series, bars }: PlotProps) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const [theme, setTheme] = useState(0);
  const shape = series.map((one) => one.label).join("|");
  useEffect(() => onTheme(() => setTheme((n) => n + 1)), []);
  useEffect(() => {
    const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    const box = element.current!;
    // With one point there is no range of time.
    const span = bars ? 7 * 86_400 : 60;
    const made = new uPlot(
      {
        width: Math.max(200, box.clientWidth),
        height: 180,
        legend: { live: false },
        cursor: { y: false },
        axes: [axis, { ...axis, size: 46 }],
        scales: { x: { range: (_, low, high) => (high - low < span ? [high - span / 2, high + span / 2] : [low, high]) }, y: { range: (_, low, high) => [Math.min(0, low), Math.max(1, high)] } },
        series: [
          {},
          ...series.map((one, index) => ({
            label: one.label,
            stroke: colour(COLOURS[index % COLOURS.length]!),
            ...(bars ? { fill: colour("--accent-soft"), paths: uPlot.paths.bars!({ size: [0.6, 60] }) } : {}),
          })),
        ],
      },
      [times, ...series.map((one) => one.values)],
      box,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: Math.max(200, box.clientWidth), height: 180 }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [shape, theme]);
  useEffect(() => {
    plot.current?.setData([times, ...series.map((one) => one.values)]);
  }, [times, series]);
  const last = series.map((one) => `${one.label} ${one.values.at(-1) ?? 0}`).join(", ");
  return <div class="plot" ref={element} role="img" aria-label={`Plot: ${last}`} />;
}
