import { z } from 'zod';
import { createRegistry } from '../../../src/mcp/registry/registry.ts';
import { tool } from '../../../src/mcp/registry/tool.ts';
import type { ToolRegistry } from '../../../src/mcp/types.ts';
import type { JsonObject } from '../../../src/json.ts';
import type { Opened } from '../../contracts/tool-source.contract.ts';
import type { OfficialServer } from './mcp-sdk.ts';

export const TOOL_COUNT = 25;

export const BLOCKS: readonly JsonObject[] = [
  { type: 'text', text: 'a' },
  { type: 'image', data: 'AAAA', mimeType: 'image/png' },
  { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
  { type: 'resource', resource: { uri: 'file:///a', text: 'b' } },
  { type: 'resource_link', uri: 'file:///b', name: 'b' },
];

type Watched = Pick<Opened, 'slow'> & {
  readonly wait: (signal: AbortSignal) => Promise<string>;
};

function watch(): Watched {
  let onStart = (): void => {};
  let onAbort = (): void => {};
  const started = new Promise<void>((resolve) => (onStart = resolve));
  const aborted = new Promise<void>((resolve) => (onAbort = resolve));
  return {
    slow: { started, aborted },
    async wait(signal) {
      onStart();
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      onAbort();
      return 'too late';
    },
  };
}

const names = Array.from({ length: TOOL_COUNT - 5 }, (_, index) => `tool-${index}`);

/** The tools of the contract as our registry. */
export function ourCatalogue(): Omit<Opened, 'source'> & { readonly source: ToolRegistry } {
  const { slow, wait } = watch();
  const source = createRegistry({
    name: 'ours',
    version: '3.2.1',
    instructions: 'Use with care.',
    tools: [
      tool('echo', 'Gives the text back', { text: z.string() }, ({ text }) => text),
      tool('fail', 'Throws', {}, () => {
        throw new Error('boom');
      }),
      tool('burst', 'Sends progress', { count: z.number() }, async ({ count }, ctx) => {
        for (let done = 1; done <= count; done += 1) void ctx.progress(done, count);
        return 'done';
      }),
      tool('slow', 'Waits', { announce: z.boolean().optional() }, async ({ announce }, ctx) => {
        if (announce) await ctx.progress(1);
        return wait(ctx.signal);
      }),
      tool('blocks', 'Every kind', {}, () => ({ content: BLOCKS, structuredContent: { n: 1 } })),
      ...names.map((name) => tool(name, name, {}, () => name)),
    ],
  });
  return {
    source,
    slow,
    change: () => source.register(tool('tool-new', 'New', {}, () => 'new')),
    async [Symbol.asyncDispose]() {},
  };
}

/** The same in a server object of the official SDK. */
export function officialCatalogue({
  add,
}: Pick<OfficialServer, 'add'>): Pick<Opened, 'slow' | 'change'> {
  const { slow, wait } = watch();
  const text = (value: string): { content: object[] } => ({
    content: [{ type: 'text', text: value }],
  });
  const progress = (progressToken: unknown, done: number): Record<string, unknown> => ({
    method: 'notifications/progress',
    params: { progressToken, progress: done },
  });
  add('echo', 'Gives the text back', { text: z.string() }, async ({ text: given }) => text(given));
  add('fail', 'Throws', {}, async () => {
    throw new Error('boom');
  });
  add('burst', 'Sends progress', { count: z.number() }, async ({ count }, context) => {
    for (let done = 1; done <= count; done += 1)
      void context.notify(progress(context.progressToken, done));
    return text('done');
  });
  add('slow', 'Waits', { announce: z.boolean().optional() }, async ({ announce }, context) => {
    if (announce) await context.notify(progress(context.progressToken, 1));
    return text(await wait(context.signal));
  });
  add('blocks', 'Every kind', {}, async () => ({
    content: BLOCKS,
    structuredContent: { n: 1 },
  }));
  for (const name of names) add(name, name, {}, async () => text(name));
  return { slow, change: () => add('tool-new', 'New', {}, async () => text('new')) };
}
