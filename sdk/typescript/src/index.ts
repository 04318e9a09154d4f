/**
 * Stead: an isolated, governed, reproducible workspace for every AI-agent session.
 *
 *     import { Sandbox } from "@stead/sdk";
 *
 *     const box = await Sandbox.create();
 *     console.log((await box.commands.run("uname -a")).stdout);
 *     await box.close();
 */

export { Client, type ClientOptions } from "./client.js";
export { Command, Commands, type CommandOptions, type EnvValue, type LineCallback, type RunOptions } from "./commands.js";
export {
  BadRequest,
  CommandFailed,
  Conflict,
  ConnectionFailed,
  Forbidden,
  NotFound,
  ProvisioningFailed,
  ServerError,
  SteadError,
  TooManyRequests,
  Unauthorized,
  VerificationFailed,
} from "./errors.js";
export { Files } from "./files.js";
export { Network } from "./network.js";
export { Forward, Ports, type PortRequest } from "./ports.js";
export type { CommandResult, OutputChunk } from "./result.js";
export { Run, Runs } from "./runs.js";
export { Sandbox, type CreateOptions, type ListOptions } from "./sandbox.js";
export { Secrets, SetupResults, type SecretOptions } from "./secrets.js";
export type { ToolFormat } from "./tools.js";
export type {
  AgentType,
  Blame,
  Diff,
  Event,
  Exec,
  FileEntry,
  Moment,
  NetworkReport,
  NetworkRule,
  Placed,
  Port,
  Prompt,
  Restored,
  Rewound,
  Secret,
  Session,
  SessionFold,
  SetupResult,
  Snapshot,
  Tool,
  ToolAnswer,
  Whoami,
} from "./api.gen/types.gen.js";
