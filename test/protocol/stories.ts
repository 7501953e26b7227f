import type { Session, SessionOptions } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { createSdkMcpServer, tool } from '../../src/mcp/registry/tool.ts';

/** One conversation between a host and a CLI that is the same in every run. */
export interface Story {
  readonly name: string;
  /** The script of the model. */
  readonly script: readonly JsonObject[];
  /** Creates the options of the host for one run. */
  readonly options: () => SessionOptions;
  /** The calls of the app. */
  readonly drive: (session: Session) => Promise<void>;
  /** How the CLI exits. */
  readonly code?: number;
}

const calc = (handler: (args: JsonObject, signal: AbortSignal) => unknown): SessionOptions => ({
  mcpServers: {
    calc: createSdkMcpServer({
      name: 'calc',
      tools: [
        tool(
          'add',
          'Adds two numbers',
          {
            type: 'object',
            properties: { a: { type: 'number' }, b: { type: 'number' } },
            required: ['a', 'b'],
          },
          (args, { signal }) => handler(args, signal) as string,
        ),
      ],
    }),
  },
});

const sum = ({ a, b }: JsonObject): string => String(Number(a) + Number(b));
const add = (a: number, b: number): JsonObject => ({
  tools: [{ name: 'mcp__calc__add', input: { a, b } }],
});

/** A prompt with a fixed id. */
const prompt = (text: string, n = 1): JsonObject => ({
  type: 'user',
  message: { role: 'user', content: [{ type: 'text', text }] },
  uuid: `11111111-0000-4000-8000-00000000000${n}`,
});

async function turn(session: Session, text: string, n?: number): Promise<void> {
  await session.send(prompt(text, n));
  for await (const _ of session.response());
}

const once =
  (text: string) =>
  async (session: Session): Promise<void> => {
    await turn(session, text);
    session.endInput();
  };

export const STORIES: readonly Story[] = [
  {
    name: 'text',
    script: [{ text: 'Hello there.' }],
    options: () => ({}),
    drive: once('Say hello'),
  },
  {
    name: 'tool',
    script: [add(2, 3), { text: 'It is {{last}}.' }],
    options: () => ({ ...calc(sum), allowedTools: ['mcp__calc__*'] }),
    drive: once('2 + 3?'),
  },
  {
    name: 'two-turns',
    script: [{ text: 'One.' }, { text: 'Two.' }],
    options: () => ({}),
    async drive(session) {
      await turn(session, 'first', 1);
      await turn(session, 'second', 2);
      session.endInput();
    },
  },
  {
    name: 'permission',
    script: [add(2, 3), add(4, 5), { text: 'Enough.' }],
    options: () => {
      let asked = 0;
      return {
        ...calc(sum),
        canUseTool: (_, { a }) =>
          ++asked === 1
            ? { behavior: 'allow', updatedInput: { a, b: 10 } }
            : { behavior: 'deny', message: 'not twice' },
      };
    },
    drive: once('add'),
  },
  {
    name: 'hook',
    script: [add(2, 3), { text: 'So be it.' }],
    options: () => ({
      ...calc(sum),
      allowedTools: ['mcp__calc__*'],
      hooks: {
        PreToolUse: [
          {
            matcher: 'mcp__calc__add',
            hooks: [
              () => ({
                hookSpecificOutput: {
                  hookEventName: 'PreToolUse',
                  permissionDecision: 'deny',
                  permissionDecisionReason: 'no sums today',
                },
              }),
            ],
          },
        ],
      },
    }),
    drive: once('add'),
  },
  {
    name: 'tool-fails',
    script: [add(2, 3), { text: 'A pity.' }],
    options: () => ({
      ...calc(() => {
        throw new Error('out of numbers');
      }),
      allowedTools: ['mcp__calc__*'],
    }),
    drive: once('add'),
  },
  {
    name: 'interrupt',
    script: [add(2, 3), { text: 'never said' }],
    options: () => ({
      ...calc(
        (_, signal) =>
          new Promise((resolve) =>
            signal.addEventListener('abort', () => resolve('late'), { once: true }),
          ),
      ),
      allowedTools: ['mcp__calc__*'],
    }),
    async drive(session) {
      await session.send(prompt('add'));
      for await (const { type, message } of session.messages())
        if (type === 'assistant' && JSON.stringify(message).includes('tool_use')) break;
      while (!session.holding.some((what) => what.startsWith('tools/call')))
        await new Promise((resolve) => setTimeout(resolve, 5));
      await session.interrupt();
      for await (const { type } of session.messages()) if (type === 'result') break;
      session.endInput();
    },
    code: 1,
  },
  {
    name: 'model-error',
    script: [{ error: { status: 400, message: 'the model does not like it' } }],
    options: () => ({}),
    drive: once('hello'),
    code: 1,
  },
];
