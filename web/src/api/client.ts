/** Requests to the server. The types of paths, parameters and answers come from the API document. */
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Session = Schemas["Session"];
export type Problem = Schemas["Problem"];

type Method = "get" | "post" | "put" | "patch" | "delete";
type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Responses<O> = O extends { responses: infer R } ? R : never;
type JsonOf<R> = R extends { content: { "application/json": infer T } } ? T : undefined;
type Success = 200 | 201 | 202;
type Answer<O> = {
  [S in keyof Responses<O> & Success]: JsonOf<Responses<O>[S]>;
}[keyof Responses<O> & Success];
type Part<O, K extends string> = O extends { parameters: infer A } ? (K extends keyof A ? A[K] : undefined) : undefined;
type Body<O> = O extends { requestBody?: infer B }
  ? NonNullable<B> extends { content: { "application/json": infer T } }
    ? T
    : undefined
  : undefined;
type Options<O> = {
  path?: Part<O, "path">;
  query?: Part<O, "query"> | Record<string, string | number | boolean | undefined>;
  body?: Body<O>;
  signal?: AbortSignal;
  headers?: Record<string, string>;
};

/** A refusal of the server, or a failure to reach it (`status` 0). */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly problem: Partial<Problem>,
  ) {
    super(problem.detail ?? "The server did not answer.");
  }
}

type Listener = () => void;
const signedOut = new Set<Listener>();
/** Calls `listener` when the server no longer accepts the cookie. */
export function onSignedOut(listener: Listener): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

/** The header proves to the server that a request comes from this page. */
export const PAGE_HEADERS = { "X-Stead-Page": "1" };

export function url(path: string, params: Record<string, unknown> = {}, query: Record<string, unknown> = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(params[name]);
    return name === "path" ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
  });
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return search.size ? `${filled}?${search}` : filled;
}

/** Sends a request and returns the response, whatever its body is. Throws a `Refusal`. */
export async function send(address: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, { ...init, headers: { ...PAGE_HEADERS, ...init.headers }, cache: "no-store" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Refusal(0, { detail: "The server does not answer.", hint: "Is it running? `stead status` tells." });
  }
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({ detail: `The server answered with ${response.status}.` }))) as Problem;
  if (response.status === 401) for (const listener of signedOut) listener();
  throw new Refusal(response.status, problem);
}

async function request<M extends Method, P extends PathOf<M> & string>(
  method: M,
  path: P,
  options: Options<Operation<P, M>> = {},
): Promise<Answer<Operation<P, M>>> {
  const { body, signal } = options;
  const response = await send(url(path, options.path ?? {}, (options.query ?? {}) as Record<string, unknown>), {
    method: method.toUpperCase(),
    signal,
    headers: {
      Accept: "application/json",
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...options.headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.status === 204) return undefined as Answer<Operation<P, M>>;
  return (await response.json()) as Answer<Operation<P, M>>;
}

export const get = <P extends PathOf<"get"> & string>(path: P, options?: Options<Operation<P, "get">>) =>
  request("get", path, options);
export const post = <P extends PathOf<"post"> & string>(path: P, options?: Options<Operation<P, "post">>) =>
  request("post", path, options);
export const put = <P extends PathOf<"put"> & string>(path: P, options?: Options<Operation<P, "put">>) =>
  request("put", path, options);
export const patch = <P extends PathOf<"patch"> & string>(path: P, options?: Options<Operation<P, "patch">>) =>
  request("patch", path, options);
export const del = <P extends PathOf<"delete"> & string>(path: P, options?: Options<Operation<P, "delete">>) =>
  request("delete", path, options);

/** Value for `Idempotency-Key`: a repeated click must not create twice. */
export const newKey = () => crypto.randomUUID?.() ?? String(Math.random()).slice(2) + Date.now();
