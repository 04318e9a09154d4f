/** Tools and tool calls in the formats of model APIs. */

import type { Tool, ToolAnswer } from "./api.gen/types.gen.js";
import { BadRequest, Forbidden, NotFound, SteadError } from "./errors.js";

export type ToolFormat = "openai" | "anthropic" | "mcp";

export function inFormat(tool: Tool, format: ToolFormat): Record<string, unknown> {
  const { name, description, parameters } = tool;
  switch (format) {
    case "openai":
      return { type: "function", function: { name, description, parameters } };
    case "anthropic":
      return { name, description, input_schema: parameters };
    case "mcp":
      return { name, description, inputSchema: parameters };
    default:
      throw new SteadError(`${String(format)} is not one of openai, anthropic, mcp`, { code: "invalid_format" });
  }
}

/** A tool call of a model, and the format that its answer must have. */
export interface ToolCall {
  name: string;
  arguments: Record<string, unknown>;
  id: string | undefined;
  format: "openai" | "responses" | "anthropic" | "mcp";
  /** What is wrong with the call. Models write arguments that are no JSON: the model is told. */
  problem: string | undefined;
}

type Fields = Record<string, unknown>;

export function readCall(call: unknown): ToolCall {
  const fields = (typeof call === "object" && call !== null ? call : {}) as Fields;
  const inner = fields["function"] as Fields | undefined;
  if (inner !== undefined) return parsed(inner["name"], inner["arguments"], fields["id"], "openai");
  if (fields["type"] === "function_call") {
    return parsed(fields["name"], fields["arguments"], fields["call_id"], "responses");
  }
  if (fields["type"] === "tool_use") return parsed(fields["name"], fields["input"], fields["id"], "anthropic");
  if (fields["name"] !== undefined) return parsed(fields["name"], fields["arguments"], undefined, "mcp");
  throw new SteadError("this is no tool call", {
    code: "invalid_tool_call",
    hint: "pass a tool call of OpenAI, Anthropic or MCP",
  });
}

function parsed(name: unknown, given: unknown, id: unknown, format: ToolCall["format"]): ToolCall {
  let value = given ?? {};
  let problem: string | undefined;
  if (typeof value === "string") {
    try {
      value = JSON.parse(value === "" ? "{}" : value);
    } catch (error) {
      problem = `the arguments are not JSON: ${(error as Error).message}`;
    }
  }
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject) problem ??= "the arguments are not a JSON object";
  return {
    name: String(name),
    arguments: isObject ? (value as Fields) : {},
    id: id == null ? undefined : String(id),
    format,
    problem,
  };
}

/** True if the model caused the refusal and can do better. */
export function isForTheModel(error: unknown): error is SteadError {
  if (error instanceof BadRequest) return true;
  if (error instanceof Forbidden) return error.code === "tool_not_enabled";
  return error instanceof NotFound && error.parameters["resource"] === "tool";
}

/** Returns what the model reads: the result as JSON, or the message of a failure. */
export function answerText(answer: ToolAnswer): string {
  if (answer.ok) return answer.result == null ? answer.message : JSON.stringify(answer.result);
  const { message = answer.message, hint } = answer.error ?? {};
  return hint == null ? message : `${message}\n${hint}`;
}

export function refusalText(error: SteadError): string {
  const fields = error.errors.map((one) => `${one.field}: ${one.message}`);
  return [error.message, ...fields, ...(error.hint === undefined ? [] : [error.hint])].join("\n");
}

/** Returns the answer as the message that the vendor's API takes next. */
export function answerMessage(call: ToolCall, text: string, ok: boolean): Record<string, unknown> {
  switch (call.format) {
    case "anthropic":
      return { type: "tool_result", tool_use_id: call.id, content: text, is_error: !ok };
    case "responses":
      return { type: "function_call_output", call_id: call.id, output: text };
    case "mcp":
      return { content: [{ type: "text", text }], isError: !ok };
    case "openai":
      return { role: "tool", tool_call_id: call.id, content: text };
  }
}
