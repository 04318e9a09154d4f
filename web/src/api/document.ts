/** The API document of the server, loaded once. */
export interface Schema {
  description?: string;
  type?: string | string[];
  enum?: unknown[];
  properties?: Record<string, Schema>;
  $ref?: string;
  oneOf?: Schema[];
  anyOf?: Schema[];
  items?: Schema;
}

export interface ApiDocument {
  components: { schemas: Record<string, Schema> };
}

let loaded: Promise<ApiDocument> | undefined;

export const apiDocument = () => (loaded ??= fetch("/openapi.json").then((response) => response.json() as Promise<ApiDocument>));
