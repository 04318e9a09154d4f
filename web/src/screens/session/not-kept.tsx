/** Says why the files at an event cannot be shown, and what to change. */
import type { Schemas } from "../../api/client";
import { words } from "../../format";
import { Notice } from "../../ui/basics";

export function NotKept({ seq, reason, points }: { seq: number; reason: string | null; points: Schemas["Moments"] }) {
  const more = points.points === "copies" ? undefined : points.points === "layers" ? "copies" : "layers";
  return (
    <Notice kind="warn" title={`The files at event ${seq} are not kept${reason ? `: ${words(reason)}` : ""}`}>
      The agent type keeps checkpoints with <code>rewind.points = "{points.points}"</code>, the latest {points.keep}.
      {more && (
        <>
          {" "}
          With <code>"{more}"</code>, new sessions keep more of them.
        </>
      )}
    </Notice>
  );
}
