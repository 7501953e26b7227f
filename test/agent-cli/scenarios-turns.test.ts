import { expect, test } from 'vitest';
import { z } from 'zod';
import {
  type AgentSdk,
  blocks,
  ofType,
  options,
  Prompts,
  readAll,
  resultOf,
  scenarios,
  toolResults,
} from './drivers.ts';
import { Workspace } from './workspace.ts';

const calc = (sdk: AgentSdk): unknown =>
  sdk.createSdkMcpServer({
    name: 'calc',
    tools: [
      sdk.tool(
        'add',
        'Adds two numbers',
        { a: z.number(), b: z.number() },
        async ({ a, b }: { a: number; b: number }) => ({
          content: [{ type: 'text', text: String(a + b) }],
        }),
      ),
    ],
  });

const add = (a: number, b: number): object => ({ name: 'mcp__calc__add', input: { a, b } });

scenarios('turns', (sdk) => {
  test('a string prompt gets a result and the process exits with 0', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ text: 'Hello from the script.' }]);
    const run = await readAll(sdk.query({ prompt: 'Say hello', options: options(ws, model) }));
    expect(run.error).toBeUndefined();
    expect(run.messages.map(({ type }) => type)).toEqual(['system', 'assistant', 'result']);
    expect(resultOf(run)).toMatchObject({
      subtype: 'success',
      is_error: false,
      result: 'Hello from the script.',
      num_turns: 1,
    });
  });

  test('an in-process tool is called through the control lane', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ tools: [add(2, 3)] }, { text: 'The sum is {{last}}.' }]);
    const run = await readAll(
      sdk.query({
        prompt: 'What is 2+3?',
        options: options(ws, model, {
          mcpServers: { calc: calc(sdk) },
          allowedTools: ['mcp__calc__add'],
        }),
      }),
    );
    expect(run.error).toBeUndefined();
    expect(ofType(run, 'system', 'init')[0]).toMatchObject({
      tools: ['mcp__calc__add'],
      mcp_servers: [{ name: 'calc', status: 'connected', source: 'sdk' }],
    });
    expect(toolResults(run)).toEqual([
      {
        type: 'tool_result',
        tool_use_id: 'toolu_script_1',
        content: [{ type: 'text', text: '5' }],
      },
    ]);
    expect(resultOf(run)).toMatchObject({
      result: 'The sum is 5.',
      num_turns: 2,
      permission_denials: [],
    });
  });

  test('several turns of a stream prompt keep the history', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { when: 'one', text: 'first' },
      { when: 'two', text: 'second' },
    ]);
    const prompts = new Prompts();
    prompts.send('one');
    let results = 0;
    const run = await readAll(
      sdk.query({ prompt: prompts, options: options(ws, model) }),
      ({ type }) => {
        if (type !== 'result') return;
        results++;
        if (results === 1) prompts.send('two');
        else prompts.end();
      },
    );
    expect(run.error).toBeUndefined();
    expect(ofType(run, 'result').map(({ result, result_index }) => [result, result_index])).toEqual(
      [
        ['first', 0],
        ['second', 1],
      ],
    );
    expect(ofType(run, 'system', 'init')).toHaveLength(2);
  });

  test('messages that are queued while the model streams become one turn', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { when: 'one', text: 'a b c d e f', delayMs: 30 },
      { when: 'two[^]*three', text: 'both' },
    ]);
    const prompts = new Prompts();
    prompts.send('one', { uuid: '11111111-1111-4111-8111-111111111111' });
    const run = await readAll(
      sdk.query({ prompt: prompts, options: options(ws, model, { includePartialMessages: true }) }),
      ({ type, event }) => {
        if (
          type !== 'stream_event' ||
          (event as { type: string }).type !== 'message_start' ||
          prompts === undefined
        )
          return;
        prompts.send('two', { uuid: '22222222-2222-4222-8222-222222222222' });
        prompts.send('three', { uuid: '33333333-3333-4333-8333-333333333333' });
        prompts.end();
      },
    );
    expect(run.error).toBeUndefined();
    const results = ofType(run, 'result');
    expect(results.map(({ result }) => result)).toEqual(['a b c d e f', 'both']);
    expect(results[0]).toMatchObject({ queued_turn_count: 2 });
    expect(results[1]).toMatchObject({
      user_message_uuids: [
        '22222222-2222-4222-8222-222222222222',
        '33333333-3333-4333-8333-333333333333',
      ],
    });
  });

  test('a message during a tool call joins the running turn', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { tools: [{ name: 'mcp__slow__wait' }] },
      { when: 'also this', text: 'Saw both.' },
    ]);
    const prompts = new Prompts();
    let release = (): void => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    const slow = sdk.createSdkMcpServer({
      name: 'slow',
      tools: [
        sdk.tool('wait', 'Waits', {}, async () => {
          prompts.send('also this', { uuid: '22222222-2222-4222-8222-222222222222' });
          await released;
          return { content: [{ type: 'text', text: 'done' }] };
        }),
      ],
    });
    prompts.send('start');
    const run = await readAll(
      sdk.query({
        prompt: prompts,
        options: options(ws, model, { mcpServers: { slow }, allowedTools: ['mcp__slow'] }),
      }),
      ({ type, state }) => {
        if (type === 'command_lifecycle' && state === 'queued') release();
        if (type === 'result') prompts.end();
      },
    );
    expect(run.error).toBeUndefined();
    expect(ofType(run, 'result')).toHaveLength(1);
    expect(resultOf(run)).toMatchObject({ result: 'Saw both.' });
  });

  test('priority now interrupts the turn and runs next', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { when: 'slow', text: 'a b c d e f g h i j k l m n o p', delayMs: 100 },
      { when: 'urgent', text: 'quick' },
    ]);
    const prompts = new Prompts();
    prompts.send('slow');
    let sent = false;
    const run = await readAll(
      sdk.query({ prompt: prompts, options: options(ws, model, { includePartialMessages: true }) }),
      ({ type, event }) => {
        if (
          type !== 'stream_event' ||
          (event as { type: string }).type !== 'content_block_delta' ||
          sent
        )
          return;
        sent = true;
        prompts.send('urgent', { priority: 'now' });
        prompts.end();
      },
    );
    expect(run.error).toBeUndefined();
    expect(
      ofType(run, 'result').map(({ subtype, terminal_reason }) => [subtype, terminal_reason]),
    ).toEqual([
      ['success', 'aborted_streaming'],
      ['success', 'completed'],
    ]);
    expect(resultOf(run)).toMatchObject({ result: 'quick' });
  });

  test('shouldQuery false adds to the history without a model call', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ when: 'note[^]*question', text: 'read it' }]);
    const prompts = new Prompts();
    prompts.send('note', { shouldQuery: false });
    const run = await readAll(
      sdk.query({ prompt: prompts, options: options(ws, model) }),
      ({ type, num_turns }) => {
        if (type !== 'result') return;
        if (num_turns === 0) prompts.send('question');
        else prompts.end();
      },
    );
    expect(run.error).toBeUndefined();
    expect(ofType(run, 'result').map(({ num_turns, result }) => [num_turns, result])).toEqual([
      [0, ''],
      [1, 'read it'],
    ]);
  });

  test('partial messages: the complete block comes before its stop event', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { thinking: 'Let me think.', text: 'I will add.', tools: [add(1, 1)] },
      { text: 'done' },
    ]);
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          includePartialMessages: true,
          mcpServers: { calc: calc(sdk) },
          allowedTools: ['mcp__calc__*'],
        }),
      }),
    );
    const kinds = run.messages.map(({ type, event }) =>
      type === 'stream_event' ? (event as { type: string }).type : type,
    );
    const stops = kinds.flatMap((kind, i) => (kind === 'content_block_stop' ? [kinds[i - 1]] : []));
    expect(stops).toEqual(['assistant', 'assistant', 'assistant', 'assistant']);
    const text = ofType(run, 'stream_event')
      .map(({ event }) => (event as { delta?: { text?: string } }).delta?.text ?? '')
      .join('');
    expect(text).toBe('I will add.done');
    expect(ofType(run, 'stream_event')[0]?.['ttft_ms']).toBeTypeOf('number');
    expect(resultOf(run)['ttft_ms']).toBeTypeOf('number');
  });

  test('read-only tools run in parallel, others one after the other', async () => {
    await using ws = await Workspace.open();
    const peak = async (readOnlyHint: boolean): Promise<number> => {
      let [running, most] = [0, 0];
      const server = sdk.createSdkMcpServer({
        name: 'calc',
        tools: [
          sdk.tool(
            'add',
            'Adds',
            {},
            async () => {
              most = Math.max(most, ++running);
              await new Promise((resolve) => setTimeout(resolve, 60));
              running--;
              return { content: [{ type: 'text', text: 'ok' }] };
            },
            { annotations: { readOnlyHint } },
          ),
        ],
      });
      const model = await ws.script([
        { tools: [add(1, 1), add(2, 2), add(3, 3)] },
        { text: 'done' },
      ]);
      const run = await readAll(
        sdk.query({
          prompt: 'go',
          options: options(ws, model, {
            mcpServers: { calc: server },
            allowedTools: ['mcp__calc__*'],
          }),
        }),
      );
      expect(resultOf(run)).toMatchObject({ num_turns: 4, result: 'done' });
      return most;
    };
    expect(await peak(true)).toBe(3);
    expect(await peak(false)).toBe(1);
  });

  test('errors of tools reach the model as failed results', async () => {
    await using ws = await Workspace.open();
    const server = sdk.createSdkMcpServer({
      name: 'bad',
      tools: [
        sdk.tool('boom', 'Throws', {}, async () => {
          throw new Error('kaboom');
        }),
        sdk.tool('soft', 'Fails', {}, async () => ({
          content: [{ type: 'text', text: 'soft failure' }],
          isError: true,
        })),
        sdk.tool('add', 'Adds', { a: z.number() }, async () => ({ content: [] })),
      ],
    });
    const model = await ws.script([
      {
        tools: [
          { name: 'mcp__bad__boom' },
          { name: 'mcp__bad__soft' },
          { name: 'mcp__bad__add', input: { a: 'x' } },
          { name: 'mcp__bad__nope' },
        ],
      },
      { text: 'sorry' },
    ]);
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, { mcpServers: { bad: server }, allowedTools: ['mcp__bad__*'] }),
      }),
    );
    const texts = toolResults(run).map(({ content, is_error }) => [String(content), is_error]);
    expect(texts).toContainEqual([expect.stringContaining('kaboom'), true]);
    expect(texts).toContainEqual(['soft failure', true]);
    expect(texts).toContainEqual([expect.stringContaining('Invalid arguments for tool add'), true]);
    expect(texts).toContainEqual([expect.stringContaining('No such tool'), true]);
    expect(resultOf(run)).toMatchObject({ is_error: false, result: 'sorry' });
  });

  test('images and structured content of a tool are passed on', async () => {
    await using ws = await Workspace.open();
    const server = sdk.createSdkMcpServer({
      name: 'rich',
      tools: [
        sdk.tool('all', 'All kinds', {}, async () => ({
          content: [
            { type: 'image', data: 'iVBORw0KGgoA', mimeType: 'image/png' },
            { type: 'resource', resource: { uri: 'mem://x', text: 'inside' } },
          ],
        })),
      ],
    });
    const model = await ws.script([{ tools: [{ name: 'mcp__rich__all' }] }, { text: 'seen' }]);
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          mcpServers: { rich: server },
          allowedTools: ['mcp__rich__*'],
        }),
      }),
    );
    expect(toolResults(run)[0]?.['content']).toEqual([
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgoA' } },
      { type: 'text', text: '[Resource from rich at mem://x] inside' },
    ]);
  });

  test('thinking is a separate block', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ thinking: 'Hm.', text: 'Yes.' }]);
    const run = await readAll(sdk.query({ prompt: 'go', options: options(ws, model) }));
    expect(blocks(run, 'assistant').map(({ type }) => type)).toEqual(['thinking', 'text']);
    const ids = ofType(run, 'assistant').map(({ message }) => (message as { id: string }).id);
    expect(new Set(ids).size).toBe(1);
  });
});
