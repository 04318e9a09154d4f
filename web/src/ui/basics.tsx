/** The small parts that every screen uses. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal } from "../api/client";
import { ago, when } from "../format";

type Kind = "good" | "bad" | "warn" | "info" | "idle";
const KINDS: Record<string, Kind> = {
  active: "good",
  finished: "good",
  completed: "good",
  healthy: "good",
  ready: "good",
  provisioning: "info",
  running: "info",
  closing: "info",
  paused: "warn",
  degraded: "warn",
  interrupted: "warn",
  cancelled: "warn",
  failed: "bad",
  unreachable: "bad",
  refused: "bad",
  closed: "idle",
};

export function Badge({ status, kind }: { status: string; kind?: Kind }) {
  const shown = kind ?? KINDS[status] ?? "idle";
  return (
    <span class={`badge ${shown}`}>
      <span class="dot" aria-hidden="true" />
      {status}
    </span>
  );
}

interface ButtonProps {
  onClick?: () => void;
  href?: string;
  kind?: "primary" | "danger" | "quiet";
  disabled?: boolean;
  title?: string;
  label?: string;
  type?: "submit" | "button";
  pressed?: boolean;
  download?: string | boolean;
  small?: boolean;
  children: ComponentChildren;
}

export function Button({ onClick, href, kind, disabled, title, label, type, pressed, download, small, children }: ButtonProps) {
  const name = `button ${kind ?? ""} ${small ? "small" : ""}`;
  if (href) {
    return (
      <a class={name} href={href} title={title} aria-label={label} download={download}>
        {children}
      </a>
    );
  }
  return (
    <button
      class={name}
      type={type ?? "button"}
      onClick={onClick}
      disabled={disabled}
      title={title}
      aria-label={label}
      aria-pressed={pressed}
    >
      {children}
    </button>
  );
}

/** A time as "3 min ago", with the exact one as a hint. */
export function Ago({ time }: { time: string }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 10_000);
    return () => clearInterval(timer);
  }, []);
  return (
    <time dateTime={time} title={when(time)}>
      {ago(time)}
    </time>
  );
}

/** What failed, why, and what to do. */
export function Failure({ error }: { error: Error }) {
  const problem = error instanceof Refusal ? error.problem : undefined;
  return (
    <div class="notice bad" role="alert">
      <strong>{error.message}</strong>
      {problem?.errors?.map((one) => (
        <div key={one.field}>
          {one.field && <code>{one.field}</code>} {one.message}
        </div>
      ))}
      {problem?.hint && <div class="hint">{problem.hint}</div>}
      {problem?.code && <code class="code">{problem.code}</code>}
    </div>
  );
}

export function Notice({ kind = "info", title, children }: { kind?: Kind; title?: string; children?: ComponentChildren }) {
  return (
    <div class={`notice ${kind}`}>
      {title && <strong>{title}</strong>}
      {children && <div>{children}</div>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      <div>{children}</div>
    </div>
  );
}

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <div class="loading" role="status">
      {what}…
    </div>
  );
}

export function Card({ title, actions, children, id }: { title?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; id?: string }) {
  return (
    <section class="card" id={id}>
      {title && (
        <header>
          <h2>{title}</h2>
          {actions && <div class="actions">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

export type Fact = [name: string, value: ComponentChildren];
export function Facts({ items }: { items: (Fact | false | undefined | null)[] }) {
  return (
    <dl class="facts">
      {items.filter((item): item is Fact => Boolean(item)).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Tabs({ tabs, current }: { tabs: { id: string; label: ComponentChildren; href: string }[]; current: string }) {
  const element = useRef<HTMLElement>(null);
  // On a phone the tabs scroll.
  useEffect(() => {
    element.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current]);
  return (
    <nav class="tabs" aria-label="Parts" ref={element}>
      {tabs.map((tab) => (
        <a key={tab.id} href={tab.href} aria-current={tab.id === current ? "page" : undefined}>
          {tab.label}
        </a>
      ))}
    </nav>
  );
}

export function Field({ label, help, error, children }: { label: string; help?: string; error?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {help && <small>{help}</small>}
      {error && <small class="error">{error}</small>}
    </label>
  );
}

export function Select({ value, onChange, options, label }: { value: string; onChange: (value: string) => void; options: [string, string][]; label: string }) {
  return (
    <select value={value} aria-label={label} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map(([id, text]) => (
        <option key={id} value={id}>
          {text}
        </option>
      ))}
    </select>
  );
}

export function Meter({ value, most, label }: { value: number; most: number; label: string }) {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  const kind = share > 0.9 ? "bad" : share > 0.7 ? "warn" : "good";
  return (
    <div class={`meter ${kind}`} role="meter" aria-valuemin={0} aria-valuemax={most} aria-valuenow={value} aria-label={label}>
      <div style={{ width: `${share * 100}%` }} />
    </div>
  );
}

/** A table that scrolls by itself on narrow screens. */
export function Table({ head, label, children }: { head: ComponentChildren[]; label: string; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((cell, index) => (
              <th key={index} scope="col">
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** `what` names the text for screen readers, where a page has several. */
export function Copy({ text, label = "Copy", what }: { text: string; label?: string; what?: string }) {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      class="button quiet small"
      aria-label={what && `${done ? "Copied" : label} ${what}`}
      onClick={() => {
        void navigator.clipboard?.writeText(text).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 1500);
        });
      }}
    >
      {done ? "Copied" : label}
    </button>
  );
}

