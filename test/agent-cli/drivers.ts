import { describe } from 'vitest';
import * as host from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { peer } from '../peers.ts';
import { AGENT, type Workspace } from './workspace.ts';
import { suite } from '../verifies.ts';

const found = await peer('agent-sdk');

/** What a tool gets beside its arguments. */
export interface Extra {
  readonly _meta: JsonObject;
  readonly sendRequest: (request: JsonObject, schema: unknown) => Promise<JsonObject>;
  readonly sendNotification: (notification: JsonObject) => Promise<void>;
}

export interface Driver {
  readonly name: string;
  /** Why it cannot drive here. */
  readonly reason: string | undefined;
  readonly sdk: AgentSdk;
}

export const official: Driver = {
  name: 'the official TypeScript SDK',
  reason: found.reason,
  sdk: (found.available
    ? await found.import('@anthropic-ai/claude-agent-sdk')
    : {}) as unknown as AgentSdk,
};

const ours: Driver = {
  name: 'our host',
  reason: undefined,
  sdk: host as unknown as AgentSdk,
};

/**
 * Scenarios that must have the same result with every driver, so that a program for the official
 * SDK runs on our host by another import.
 */
export function scenarios(topic: string, define: (sdk: AgentSdk) => void): void {
  for (const driver of [official, ours]) {
    const title = `${driver.name} drives the agent: ${topic}`;
    const run = (): void => define(driver.sdk);
    (driver === ours ? describe : suiteOf(driver))(title, run);
  }
}

const suiteOf =
  ({ reason }: Driver) =>
  (title: string, run: () => void): void =>
    suite(title, reason, run);

/** What the scenarios use of the surface of the official SDK. */
export interface AgentSdk {
  query(options: {
    prompt: string | AsyncIterable<unknown>;
    options: Record<string, unknown>;
  }): Query;
  tool(...args: unknown[]): unknown;
  createSdkMcpServer(options: JsonObject): unknown;
  InMemorySessionStore: new () => unknown;
}

export interface Query extends AsyncGenerator<SdkMessage, void> {
  interrupt(): Promise<unknown>;
  setModel(model?: string): Promise<void>;
  setPermissionMode(mode: string): Promise<void>;
  setMaxThinkingTokens(tokens: number | null): Promise<void>;
  mcpServerStatus(): Promise<JsonObject[]>;
  setMcpServers(servers: Record<string, unknown>): Promise<JsonObject>;
  toggleMcpServer(name: string, enabled: boolean): Promise<void>;
  reconnectMcpServer(name: string): Promise<void>;
  supportedModels(): Promise<JsonObject[]>;
  supportedCommands(): Promise<JsonObject[]>;
  accountInfo(): Promise<JsonObject>;
  initializationResult(): Promise<JsonObject>;
  getContextUsage(): Promise<JsonObject>;
  applyFlagSettings(settings: JsonObject): Promise<void>;
  stopTask(id: string): Promise<void>;
  close(): void;
}

export interface SdkMessage {
  readonly type: string;
  readonly subtype?: string;
  readonly [key: string]: unknown;
}

export interface Run {
  readonly messages: SdkMessage[];
  readonly error: Error | undefined;
}

/** Options of a query that runs our CLI in a workspace. */
export const options = (
  workspace: Workspace,
  model: string,
  more: JsonObject = {},
): Record<string, unknown> => ({
  pathToClaudeCodeExecutable: AGENT,
  executable: 'node',
  cwd: workspace.cwd,
  env: workspace.env,
  model,
  tools: [],
  settingSources: [],
  ...more,
});

/** Reads a query to its end; a throw of its iterator is part of what is seen. */
export async function readAll(
  query: Query,
  onMessage?: (message: SdkMessage) => unknown,
): Promise<Run> {
  const messages: SdkMessage[] = [];
  try {
    for await (const message of query) {
      messages.push(message);
      await onMessage?.(message);
    }
    return { messages, error: undefined };
  } catch (error) {
    return { messages, error: error as Error };
  }
}

export const resultOf = ({ messages }: Run): SdkMessage => {
  const result = messages.findLast(({ type }) => type === 'result');
  if (!result) throw new Error('no result came');
  return result;
};

export const ofType = ({ messages }: Run, type: string, subtype?: string): SdkMessage[] =>
  messages.filter(
    (message) => message.type === type && (subtype === undefined || message.subtype === subtype),
  );

/** The content blocks of all lines of a type. */
export const blocks = (run: Run, type: 'assistant' | 'user'): JsonObject[] =>
  ofType(run, type).flatMap(({ message }) => (message as { content: JsonObject[] }).content);

export const toolResults = (run: Run): JsonObject[] =>
  blocks(run, 'user').filter((block) => block['type'] === 'tool_result');

export const user = (content: string, more: JsonObject = {}): JsonObject => ({
  type: 'user',
  session_id: '',
  message: { role: 'user', content },
  parent_tool_use_id: null,
  ...more,
});

/** A prompt that is fed by hand. */
export class Prompts implements AsyncIterable<JsonObject> {
  readonly #waiting: JsonObject[] = [];
  #wake: () => void = () => {};
  #ended = false;

  send(content: string, more: JsonObject = {}): void {
    this.#waiting.push(user(content, more));
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<JsonObject, void, undefined> {
    for (;;) {
      yield* this.#waiting.splice(0);
      if (this.#ended) return;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

/** An in-process server with one tool. */
export const server = (
  sdk: AgentSdk,
  name: string,
  tool: string,
  shape: object,
  handler: (args: never, extra: never) => unknown,
  extras?: object,
): unknown =>
  sdk.createSdkMcpServer({
    name,
    tools: [sdk.tool(tool, `The tool ${tool}`, shape, handler, extras)],
  });

export const said = (text: string): JsonObject => ({ content: [{ type: 'text', text }] });
