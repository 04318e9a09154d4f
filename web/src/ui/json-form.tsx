/** A form for a JSON document: the text, help for each field from the API's schema, and the server's own validation. */
import { useState } from "preact/hooks";
import { Refusal } from "../api/client";
import { apiDocument, type ApiDocument, type Schema } from "../api/document";
import { useResource } from "../resource";
import { Button, Failure } from "./basics";

interface Props {
  value: unknown;
  /** Name of the schema in the API document. */
  schema: string;
  readOnly: boolean;
  save: (value: unknown) => Promise<unknown>;
  action?: string;
}

export function JsonForm({ value, schema, readOnly, save, action = "Save" }: Props) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [error, setError] = useState<Error>();
  const [note, setNote] = useState("");
  const [busy, setBusy] = useState(false);
  const help = useResource(apiDocument, []);
  const fields = help.data ? describe(help.data, { $ref: `#/components/schemas/${schema}` }, "", 0) : [];
  const wrong = new Set(error instanceof Refusal ? error.problem.errors?.map((one) => one.field) : []);
  return (
    <form
      class="grid"
      onSubmit={(event) => {
        event.preventDefault();
        setNote("");
        let parsed: unknown;
        try {
          parsed = JSON.parse(text);
        } catch (failure) {
          return setError(new Error(`This is not JSON: ${(failure as Error).message}`));
        }
        setBusy(true);
        setError(undefined);
        save(parsed)
          .then(() => setNote("Saved."), (failure: Error) => setError(failure))
          .finally(() => setBusy(false));
      }}
    >
      <div class="stack">
        <textarea class="document" rows={26} spellcheck={false} aria-label={schema} value={text} readOnly={readOnly} onInput={(event) => setText(event.currentTarget.value)} />
        {error && <Failure error={error} />}
        {!readOnly && (
          <div class="row">
            <Button kind="primary" type="submit" disabled={busy}>
              {action}
            </Button>
            <span class="muted" role="status">{note}</span>
          </div>
        )}
      </div>
      <div class="fields" tabIndex={0} role="region" aria-label="Fields">
        {fields.map((field) => (
          <div key={field.name} class={wrong.has(field.name) ? "wrong" : ""}>
            <code>{field.name}</code> <span class="muted">{field.type}</span>
            <div class="muted">{field.about}</div>
          </div>
        ))}
      </div>
    </form>
  );
}

interface Described {
  name: string;
  type: string;
  about: string;
}

function resolve(document: ApiDocument, schema: Schema): Schema {
  if (schema.$ref) return resolve(document, document.components.schemas[schema.$ref.split("/").at(-1)!] ?? {});
  const one = (schema.oneOf ?? schema.anyOf)?.filter((part) => part.type !== "null");
  return one?.length === 1 ? { ...resolve(document, one[0]!), description: schema.description ?? one[0]!.description } : schema;
}

function describe(document: ApiDocument, schema: Schema, prefix: string, depth: number): Described[] {
  const found = resolve(document, schema);
  return Object.entries(found.properties ?? {}).flatMap(([name, property]) => {
    const inner = resolve(document, property);
    const full = prefix ? `${prefix}.${name}` : name;
    const type = inner.enum ? inner.enum.map(String).join(" | ") : [inner.type ?? "object"].flat().filter((one) => one !== "null").join(" | ");
    const own = { name: full, type: type.length > 90 ? "one of several words" : type, about: property.description ?? inner.description ?? "" };
    return depth < 1 && inner.properties ? [own, ...describe(document, inner, full, depth + 1)] : [own];
  });
}
