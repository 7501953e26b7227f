import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { SdkServer, SdkTransport } from '../../../src/mcp/json-rpc/in-process.ts';
import type { JsonObject } from '../../../src/json.ts';

const home = fileURLToPath(new URL('../../../peers/mcp-sdk/', import.meta.url));

function install(): string | undefined {
  if (existsSync(`${home}node_modules/@modelcontextprotocol/server`)) return undefined;
  try {
    execFileSync('npm', ['ci', '--ignore-scripts'], { cwd: home, stdio: 'pipe' });
    return undefined;
  } catch (error) {
    return `peers/mcp-sdk could not be installed: ${String(error)}`;
  }
}

/** Why the official packages are missing, or undefined. */
export const missing: string | undefined = install();

export const load = (name: string): unknown => createRequire(`${home}package.json`)(name);

/** The part of the official objects that the tests use. */
export interface SdkClient {
  connect(transport: SdkTransport): Promise<void>;
  close(): Promise<void>;
  listTools(params?: JsonObject): Promise<{ tools: JsonObject[]; nextCursor?: string }>;
  callTool(params: JsonObject, ...options: unknown[]): Promise<JsonObject>;
  ping(): Promise<unknown>;
  setRequestHandler(schema: unknown, handler: (request: JsonObject) => unknown): void;
}

export interface HandlerContext {
  readonly signal: AbortSignal;
  readonly progressToken: unknown;
  notify(message: JsonObject): Promise<void>;
}

export type Handler = (args: never, context: HandlerContext) => Promise<JsonObject>;

export interface OfficialServer {
  readonly server: SdkServer;
  readonly add: (name: string, description: string, shape: JsonObject, handler: Handler) => void;
}

type ToolCallback = (args: never, extra: JsonObject) => Promise<JsonObject>;
type McpServer = SdkServer & {
  registerTool(name: string, config: JsonObject, run: ToolCallback): void;
};
type McpServerClass = new (info: JsonObject, options?: JsonObject) => McpServer;
type ClientClass = new (info: JsonObject, options?: JsonObject) => SdkClient;

const INFO = { name: 'official', version: '3.2.1' };

export function serverV1(): OfficialServer {
  const { McpServer } = load('@modelcontextprotocol/sdk/server/mcp.js') as {
    McpServer: McpServerClass;
  };
  const server = new McpServer(INFO, { instructions: 'Use with care.' });
  return {
    server,
    add(name, description, inputSchema, handler) {
      server.registerTool(name, { description, inputSchema }, async (args, extra) => {
        const { signal, _meta, sendNotification } = extra as unknown as {
          signal: AbortSignal;
          _meta?: JsonObject;
          sendNotification: HandlerContext['notify'];
        };
        const progressToken = _meta?.['progressToken'];
        return handler(args, { signal, progressToken, notify: sendNotification });
      });
    },
  };
}

export function serverV2(): OfficialServer {
  const { McpServer } = load('@modelcontextprotocol/server') as { McpServer: McpServerClass };
  const { z } = load('zod') as { z: { object(shape: JsonObject): JsonObject } };
  const server = new McpServer(INFO, { instructions: 'Use with care.' });
  return {
    server,
    add(name, description, shape, handler) {
      const config = { description, inputSchema: z.object(shape) };
      server.registerTool(name, config, async (args, context) => {
        const { signal, _meta, notify } = context['mcpReq'] as {
          signal: AbortSignal;
          _meta?: JsonObject;
          notify: HandlerContext['notify'];
        };
        return handler(args, { signal, progressToken: _meta?.['progressToken'], notify });
      });
    },
  };
}

export function clientV1(capabilities: JsonObject = {}): SdkClient {
  const { Client } = load('@modelcontextprotocol/sdk/client/index.js') as { Client: ClientClass };
  return new Client({ name: 'peer', version: '1' }, { capabilities });
}

export function clientV2(capabilities: JsonObject = {}, more: JsonObject = {}): SdkClient {
  const { Client } = load('@modelcontextprotocol/client') as { Client: ClientClass };
  return new Client({ name: 'peer', version: '1' }, { capabilities, ...more });
}

/** The name of the elicitation request in each version of the SDK. */
export const elicitSchema = {
  v1: (): unknown =>
    (load('@modelcontextprotocol/sdk/types.js') as JsonObject)['ElicitRequestSchema'],
  v2: (): unknown => 'elicitation/create',
};

type StdioClass = new (options: { command: string; args: string[] }) => SdkTransport;

export const stdioV1 = (options: { command: string; args: string[] }): SdkTransport => {
  const name = '@modelcontextprotocol/sdk/client/stdio.js';
  const { StdioClientTransport } = load(name) as { StdioClientTransport: StdioClass };
  return new StdioClientTransport(options);
};

export const stdioV2 = (options: { command: string; args: string[] }): SdkTransport => {
  const name = '@modelcontextprotocol/client/stdio';
  const { StdioClientTransport } = load(name) as { StdioClientTransport: StdioClass };
  return new StdioClientTransport(options);
};
