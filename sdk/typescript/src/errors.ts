/** Errors. Every failure of this package is a {@link SteadError}. */

import type { CommandResult } from "./result.js";

export interface ErrorFields {
  code?: string;
  status?: number;
  hint?: string;
  requestId?: string;
  errors?: { field: string; message: string }[];
  parameters?: Record<string, unknown>;
  cause?: unknown;
}

/** A failure, with the stable code that programs compare. */
export class SteadError extends Error {
  /** Stable name of the reason, such as `not_found`. */
  readonly code: string;
  /** HTTP status of the answer; undefined if there was none. */
  readonly status: number | undefined;
  /** What to do next, if the server knows it. */
  readonly hint: string | undefined;
  /** Identifies the request in the log of the server. */
  readonly requestId: string | undefined;
  /** Fields of the request that are not valid. */
  readonly errors: { field: string; message: string }[];
  readonly parameters: Record<string, unknown>;

  constructor(message: string, fields: ErrorFields = {}) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = new.target.name;
    this.code = fields.code ?? "failed";
    this.status = fields.status;
    this.hint = fields.hint;
    this.requestId = fields.requestId;
    this.errors = fields.errors ?? [];
    this.parameters = fields.parameters ?? {};
  }
}

/** The server cannot be reached, or the connection ended before the answer was complete. */
export class ConnectionFailed extends SteadError {}
/** 400, 413, 415 or 422: the server does not accept the request. `errors` names the fields. */
export class BadRequest extends SteadError {}
/** 401: the token is missing or not valid. */
export class Unauthorized extends SteadError {}
/** 403: the token or the session may not do this. */
export class Forbidden extends SteadError {}
/** 404: the session, file or other resource does not exist. */
export class NotFound extends SteadError {}
/** 409 or 412: the state of the resource does not allow this, such as a closed session. */
export class Conflict extends SteadError {}
/** 429: a limit was still reached after all retries. */
export class TooManyRequests extends SteadError {}
/** 5xx: the server could not do it, also after all retries. */
export class ServerError extends SteadError {}
/** The sandbox has no workspace. `code` and the message say why. */
export class ProvisioningFailed extends SteadError {}
/** The replay of a journal differs from the live state. */
export class VerificationFailed extends SteadError {}

/** A command had no exit code, or `check` was set and its exit code is not 0. */
export class CommandFailed extends SteadError {
  /** The result of a command that ended. */
  readonly result: CommandResult | undefined;

  constructor(message: string, code: string, result?: CommandResult) {
    super(message, { code });
    this.result = result;
  }
}

const BY_STATUS: Record<number, typeof SteadError> = {
  400: BadRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  412: Conflict,
  413: BadRequest,
  415: BadRequest,
  422: BadRequest,
  429: TooManyRequests,
};

/** Returns the error for an RFC 9457 problem. */
export function fromResponse(status: number, body: string, requestId: string | undefined): SteadError {
  const kind = BY_STATUS[status] ?? (status >= 500 ? ServerError : SteadError);
  let problem: Record<string, unknown> | undefined;
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed === "object" && parsed !== null) problem = parsed as Record<string, unknown>;
  } catch {
    // Not a Stead server, or a proxy in front of it.
  }
  const fields: ErrorFields = { status, code: "unexpected_answer" };
  if (requestId !== undefined) fields.requestId = requestId;
  if (problem === undefined) {
    return new kind(`the server answered with status ${status}, and not as a Stead server does`, fields);
  }
  fields.code = String(problem["code"] ?? "failed");
  if (typeof problem["hint"] === "string") fields.hint = problem["hint"];
  if (Array.isArray(problem["errors"])) fields.errors = problem["errors"] as { field: string; message: string }[];
  if (typeof problem["parameters"] === "object" && problem["parameters"] !== null) {
    fields.parameters = problem["parameters"] as Record<string, unknown>;
  }
  return new kind(String(problem["detail"] ?? problem["title"] ?? `status ${status}`), fields);
}
