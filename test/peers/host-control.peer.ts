import { expect, test } from 'vitest';
import { openSession, query } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { collect } from '../support/fake-cli.ts';
import { calc, call, eachRealCli, results } from './host-fixture.ts';

await eachRealCli('control', (placed) => {
  test('permissions: allow, changed, deny', async () => {
    const inputs: unknown[] = [];
    await using place = await placed(
      [1, 2, 3].map((n) => call('mcp__calc__run', { n })).concat({ text: 'end' }),
      {
        mcpServers: calc(({ n }) => {
          inputs.push(n);
          return 'ok';
        }),
        canUseTool: (_name, { n }) =>
          n === 1
            ? { behavior: 'allow' }
            : n === 2
              ? { behavior: 'allow', updatedInput: { n: 20 } }
              : { behavior: 'deny', message: 'not three' },
      },
    );
    const run = query({ prompt: 'go', options: place.options });
    const seen = await collect(run);
    expect(inputs).toEqual([1, 20]);
    expect(results(seen)).toMatchObject([
      { permission_denials: [{ tool_name: 'mcp__calc__run' }] },
    ]);
    const { decisions } = await run.session;
    expect(decisions.map(({ behavior }) => behavior)).toEqual(['allow', 'allow', 'deny']);
  });

  test('hooks run before and after a tool', async () => {
    const seen: string[] = [];
    const note = ({ hook_event_name }: { readonly hook_event_name: string }): JsonObject => {
      seen.push(hook_event_name);
      return {};
    };
    await using place = await placed([call('mcp__calc__run'), { text: 'end' }], {
      mcpServers: calc(() => 'ok'),
      allowedTools: ['mcp__calc__*'],
      hooks: {
        PreToolUse: [{ matcher: 'mcp__calc__run', hooks: [note] }],
        PostToolUse: [{ hooks: [note] }],
        Stop: [{ hooks: [note] }],
      },
    });
    await collect(query({ prompt: 'go', options: place.options }));
    expect(seen).toEqual(['PreToolUse', 'PostToolUse', 'Stop']);
  });

  test('an interrupt ends only the current turn', async () => {
    await using place = await placed(
      [
        { text: Array.from({ length: 200 }, (_, n) => `word ${n} `), pieceDelayMs: 50 },
        { text: 'second' },
      ],
      { includePartialMessages: true },
    );
    await using session = await openSession(place.options);
    await session.send('long');
    for await (const message of session.response()) {
      if (message['type'] === 'stream_event' && JSON.stringify(message).includes('word 3')) break;
    }
    await session.interrupt();
    await session.send('next');
    const seen = await collect(session.response());
    expect(results(seen)).toMatchObject([{ subtype: 'success', result: 'second' }]);
  });

  test('sets model and mode, sends any request, and reports a request that the CLI does not know', async () => {
    await using place = await placed([{ text: 'x' }]);
    await using session = await openSession(place.options);
    await session.ready();
    expect(await session.request('set_permission_mode', { mode: 'acceptEdits' })).toMatchObject({
      mode: 'acceptEdits',
    });
    await session.request('set_model', { model: 'other' });
    await expect(session.request('no_such_request')).rejects.toBeInstanceOf(Error);
    await session.send('x');
    const seen = await collect(session.response());
    expect(seen.find(({ subtype }) => subtype === 'init')).toMatchObject({
      permissionMode: 'acceptEdits',
      model: 'other',
    });
  });

  test('structured output', async () => {
    const schema = {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    };
    await using place = await placed([call('StructuredOutput', { city: 'Berlin' })], {
      outputFormat: { type: 'json_schema', schema },
    });
    const seen = await collect(query({ prompt: 'go', options: place.options }));
    expect(results(seen)).toMatchObject([{ structured_output: { city: 'Berlin' } }]);
  });
});
