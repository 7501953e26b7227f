import { invalid, unsupported } from '../../errors.ts';
import type { Frame } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';

/** A tool server for the agent: its process, or its address. */
export type AcpMcpServer =
  | {
      readonly type?: 'stdio';
      readonly command: string;
      readonly args?: readonly string[];
      readonly env?: Readonly<Record<string, string>>;
    }
  | {
      readonly type: 'http' | 'sse';
      readonly url: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

/** Answers a request of the agent. An error that it throws is the response. */
export type AcpMethod = (
  params: JsonObject,
  context: { readonly signal: AbortSignal },
) => Promise<JsonObject>;

/** The methods that an agent may call if you provide them. All five of `terminal/` or none. */
export type AcpClientMethod =
  | 'fs/read_text_file'
  | 'fs/write_text_file'
  | 'terminal/create'
  | 'terminal/output'
  | 'terminal/wait_for_exit'
  | 'terminal/kill'
  | 'terminal/release';

/** Options of `acp`. */
export interface AcpOptions {
  /** Arguments of the command, such as `['--acp']`. */
  readonly args?: readonly string[];
  /** The folder that the agent works in; that of this process by default. */
  readonly cwd?: string;
  /** Further folders of the session, for an agent that supports them. */
  readonly additionalDirectories?: readonly string[];
  /** The environment of the agent. It replaces that of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Adds the environment of this process, or these names of it; true if `env` is missing. */
  readonly inheritEnv?: boolean | readonly string[];
  /** The id of the agent's authentication method to use before the session starts. */
  readonly auth?: string;
  /** The id of the session mode, if the agent has modes. */
  readonly mode?: string;
  /** Values of the agent's session options, such as its model, by their ids. */
  readonly config?: Readonly<Record<string, string | boolean>>;
  readonly mcpServers?: Readonly<Record<string, AcpMcpServer>>;
  /** Handlers for the files and terminals of the agent. Others are refused by name. */
  readonly methods?: Partial<Readonly<Record<AcpClientMethod, AcpMethod>>>;
  /** Sent to continue a turn that a process did not finish; `Continue.` by default. */
  readonly continuePrompt?: string;
  /** Whether a run that was interrupted is continued; true by default. */
  readonly resumable?: boolean;
  /** How long each request of the start may take; 60 s by default. */
  readonly startTimeoutMs?: number;
  /** How long the agent may take to end its turn after a cancel; 5 s by default. */
  readonly cancelTimeoutMs?: number;
  /** Time between the end of the agent's input and SIGTERM; 2 s by default. */
  readonly graceMs?: number;
  /** Time between SIGTERM and SIGKILL of its process tree; 5 s by default. */
  readonly killMs?: number;
  /** The longest message of the agent; 64 MiB by default. A longer one ends the run. */
  readonly maxBytes?: number;
  /** Gets every message, on both lanes. */
  readonly onFrame?: (frame: Frame) => void;
  /** Gets what the agent prints to stderr. */
  readonly onStderr?: (text: string) => void;
}

const METHODS: readonly AcpClientMethod[] = [
  'fs/read_text_file',
  'fs/write_text_file',
  'terminal/create',
  'terminal/output',
  'terminal/wait_for_exit',
  'terminal/kill',
  'terminal/release',
];

/** What this client offers to the agent. Throws `invalid` for methods that it cannot offer. */
export function clientCapabilities({ methods = {} }: AcpOptions): JsonObject {
  const given = Object.keys(methods) as AcpClientMethod[];
  const unknown = given.find((name) => !METHODS.includes(name));
  if (unknown !== undefined)
    throw invalid(`unknown method "${unknown}" in methods: expected one of ${METHODS.join(', ')}`);
  const terminals = METHODS.filter((name) => name.startsWith('terminal/'));
  const terminal = terminals.filter((name) => methods[name]);
  if (terminal.length > 0 && terminal.length < terminals.length)
    throw invalid(
      `methods lacks ${terminals.filter((name) => !methods[name]).join(', ')}: expected all methods of terminals or none`,
    );
  return {
    fs: {
      readTextFile: methods['fs/read_text_file'] !== undefined,
      writeTextFile: methods['fs/write_text_file'] !== undefined,
    },
    terminal: terminal.length > 0,
    elicitation: { form: {}, url: {} },
    session: { notices: {} },
  };
}

/** The tool servers in the form of the protocol. Throws `unsupported` by name. */
export function mcpServersFor(
  { mcpServers = {} }: AcpOptions,
  can: (kind: 'http' | 'sse') => boolean,
): readonly JsonObject[] {
  return Object.entries(mcpServers).map(([name, server]) => {
    if ('command' in server) {
      const { command, args = [], env = {} } = server;
      return { name, command, args, env: pairs(env) };
    }
    const { type, url, headers = {} } = server;
    if (type !== 'http' && type !== 'sse')
      throw invalid(
        `invalid mcpServers.${name}: expected command, or url with type "http" or "sse"; serve functions of this process with mcpHandler`,
      );
    if (!can(type))
      throw unsupported(
        `the agent does not support MCP servers over ${type}, such as "${name}"; use a server that it starts as a command`,
      );
    return { type, name, url, headers: pairs(headers) };
  });
}

const pairs = (values: Readonly<Record<string, string>>): readonly JsonObject[] =>
  Object.entries(values).map(([name, value]) => ({ name, value }));
