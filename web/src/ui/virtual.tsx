/** A list of any length that renders only the visible rows. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props {
  count: number;
  rowHeight: number;
  render: (index: number) => ComponentChildren;
  label: string;
  /** Rows that are visible now, for paging. */
  onRange?: (from: number, to: number) => void;
  /** Row to scroll to when it changes. */
  focus?: number;
  /** Stay at the end while rows are added. */
  follow?: boolean;
  head?: ComponentChildren;
}

const MARGIN = 8;

export function VirtualList({ count, rowHeight, render, label, onRange, focus, follow, head }: Props) {
  const element = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const atEnd = useRef(true);

  useLayoutEffect(() => {
    const box = element.current!;
    const measure = () => setView({ top: box.scrollTop, height: box.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    return () => observer.disconnect();
  }, []);

  const from = Math.max(0, Math.floor(view.top / rowHeight) - MARGIN);
  const to = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + MARGIN);
  useEffect(() => onRange?.(from, to), [from, to, count]);

  useEffect(() => {
    const box = element.current!;
    if (follow && atEnd.current) box.scrollTop = box.scrollHeight;
  }, [count, follow]);

  useEffect(() => {
    const box = element.current!;
    if (focus === undefined) return;
    const top = focus * rowHeight;
    if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - rowHeight) {
      box.scrollTop = Math.max(0, top - box.clientHeight / 2);
    }
  }, [focus]);

  const rows = [];
  for (let index = from; index < to; index += 1) rows.push(render(index));
  return (
    <div
      class="virtual"
      ref={element}
      role="list"
      aria-label={label}
      tabIndex={0}
      onScroll={(event) => {
        const box = event.currentTarget;
        atEnd.current = box.scrollTop + box.clientHeight >= box.scrollHeight - rowHeight;
        setView({ top: box.scrollTop, height: box.clientHeight });
      }}
    >
      {head}
      <div role="presentation" style={{ height: `${count * rowHeight}px`, position: "relative" }}>
        <div role="presentation" style={{ transform: `translateY(${from * rowHeight}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
