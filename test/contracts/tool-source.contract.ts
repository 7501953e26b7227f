import { describe, expect, test } from 'vitest';
import { isObject } from '../../src/json.ts';
import type { Tool, ToolCall, ToolEvent, ToolResult, ToolSource } from '../../src/mcp/types.ts';
import { BLOCKS, TOOL_COUNT } from '../support/mcp/catalogue.ts';
import { verifies } from '../verifies.ts';

/**
 * What a source under test must have: 25 tools. `echo {text}` gives the text; `fail` throws `boom`;
 * `burst {count}` sends `count` progress messages without a pause, then its result; `slow` waits for its
 * signal; `blocks` gives one block of each kind; the rest are `tool-<n>`.
 */
export interface Opened extends AsyncDisposable {
  readonly source: ToolSource;
  /** Resolves when `slow` runs, and when its signal has aborted. */
  readonly slow: { readonly started: Promise<void>; readonly aborted: Promise<void> };
  /** Adds `tool-new` behind the source's back. */
  change(): void;
}

let ids = 0;
export const call = (name: string, args: ToolCall['args'] = {}): ToolCall => ({
  id: `call-${(ids += 1)}`,
  name,
  args,
});

export async function toArray<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const resultOf = (events: readonly ToolEvent[]): ToolResult => {
  const last = events.at(-1);
  if (last?.type !== 'result') throw new Error(`no result: ${JSON.stringify(last)}`);
  return last.result;
};

const textOf = (result: ToolResult): unknown => result.content[0]?.['text'];

/** The laws of a ToolSource, wherever it comes from. */
export function toolSourceContract(name: string, open: () => Promise<Opened>): void {
  describe(`${name} keeps the contract of a ToolSource`, () => {
    test('it lists every tool once, in order, with an object schema', async () => {
      await using opened = await open();
      const tools = await toArray(opened.source.listTools());
      expect(tools.map((tool) => tool.name).slice(0, 5)).toEqual([
        'echo',
        'fail',
        'burst',
        'slow',
        'blocks',
      ]);
      expect(new Set(tools.map((tool) => tool.name)).size).toBe(TOOL_COUNT);
      for (const tool of tools) expect(tool.inputSchema['type']).toBe('object');
    });

    test('a list goes on after any checkpoint', async () => {
      await using opened = await open();
      const all = (await toArray(opened.source.listTools())).map((tool) => tool.name);
      for (const taken of [1, 4, 13, 25]) {
        const first = opened.source.listTools();
        const head: Tool[] = [];
        for await (const tool of first) if (head.push(tool) === taken) break;
        const after = first.checkpoint;
        if (after === undefined) throw new Error('no checkpoint');
        const rest = await toArray(opened.source.listTools({ after }));
        expect([...head, ...rest].map((tool) => tool.name)).toEqual(all);
      }
    });

    test('leaving a list early leaves the source usable', async () => {
      await using opened = await open();
      for await (const tool of opened.source.listTools()) {
        expect(tool.name).toBe('echo');
        break;
      }
      expect(await toArray(opened.source.listTools())).toHaveLength(TOOL_COUNT);
    });

    test('an aborted list throws the reason', async () => {
      await using opened = await open();
      const reason = new Error('enough');
      const signal = AbortSignal.abort(reason);
      await expect(toArray(opened.source.listTools({ signal }))).rejects.toBe(reason);
    });

    test('a call ends with its result', async () => {
      await using opened = await open();
      const events = await toArray(opened.source.callTool(call('echo', { text: 'hi' })));
      expect(textOf(resultOf(events))).toBe('hi');
    });

    test('sixty-four concurrent calls each get their own result', async () => {
      await using opened = await open();
      const texts = Array.from({ length: 64 }, (_, index) => `text ${index}`);
      const results = await Promise.all(
        texts.map((text) => toArray(opened.source.callTool(call('echo', { text })))),
      );
      expect(results.map((events) => textOf(resultOf(events)))).toEqual(texts);
    });

    test('a tool that throws gives a failed result, and other calls go on', async () => {
      await using opened = await open();
      const [failed, fine] = await Promise.all([
        toArray(opened.source.callTool(call('fail'))),
        toArray(opened.source.callTool(call('echo', { text: 'fine' }))),
      ]);
      expect(resultOf(failed).isError).toBe(true);
      expect(textOf(resultOf(failed))).toContain('boom');
      expect(textOf(resultOf(fine))).toBe('fine');
    });

    // MCP 2025-11-25 and both lines of the official SDK: the model can correct what it reads.
    test('arguments that do not fit are a result with isError, which names the field', async () => {
      await using opened = await open();
      const result = resultOf(await toArray(opened.source.callTool(call('echo', { text: 1 }))));
      expect(result.isError).toBe(true);
      expect(textOf(result)).toMatch(/Invalid arguments for tool echo[^]*text/);
    });

    verifies('S64', 'every block of a result and its structured content come through', async () => {
      await using opened = await open();
      const result = resultOf(await toArray(opened.source.callTool(call('blocks'))));
      expect(result.content).toEqual(BLOCKS);
      expect(result.structuredContent).toEqual({ n: 1 });
    });

    test('all progress of a burst comes, in order, before the result', async () => {
      await using opened = await open();
      const runs = await Promise.all(
        Array.from({ length: 20 }, () =>
          toArray(opened.source.callTool(call('burst', { count: 10 }))),
        ),
      );
      for (const events of runs) {
        const progress = events.slice(0, -1).map((event) => event.type === 'progress' && event);
        expect(progress.map((event) => isObject(event) && event['progress'])).toEqual([
          1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
        ]);
        expect(textOf(resultOf(events))).toBe('done');
      }
    });

    test('aborting a call reaches the handler, and the loop throws the reason', async () => {
      await using opened = await open();
      const controller = new AbortController();
      const reason = new Error('stop');
      const run = toArray(opened.source.callTool(call('slow'), { signal: controller.signal }));
      run.catch(() => {});
      await opened.slow.started;
      controller.abort(reason);
      await expect(run).rejects.toBe(reason);
      await opened.slow.aborted;
      const events = await toArray(opened.source.callTool(call('echo', { text: 'on' })));
      expect(textOf(resultOf(events))).toBe('on');
    });

    test('a deadline that passes ends the call with `timeout`', async () => {
      await using opened = await open();
      const run = toArray(opened.source.callTool(call('slow'), { deadline: Date.now() + 50 }));
      let started = false;
      void opened.slow.started.then(() => (started = true));
      await expect(run).rejects.toMatchObject({ code: 'timeout' });
      // On a busy machine the deadline may pass before the call has reached the tool.
      if (started) await opened.slow.aborted;
    });

    test('leaving the loop of a call aborts its handler', async () => {
      await using opened = await open();
      for await (const event of opened.source.callTool(call('slow', { announce: true }))) {
        expect(event.type).toBe('progress');
        break;
      }
      await opened.slow.aborted;
    });

    test('a listener gets a change, after the confirmation that it listens', async () => {
      await using opened = await open();
      const stop = new AbortController();
      const seen: string[] = [];
      const listening = opened.source.listen!({ signal: stop.signal });
      await expect(
        (async () => {
          for await (const change of listening) {
            seen.push(change.type);
            if (change.type === 'listening') opened.change();
            else stop.abort(new Error('heard'));
          }
        })(),
      ).rejects.toThrow('heard');
      expect(seen).toEqual(['listening', 'tools']);
      const names = (await toArray(opened.source.listTools())).map((tool) => tool.name);
      expect(names.at(-1)).toBe('tool-new');
    });
  });
}
