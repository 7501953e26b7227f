import { mkdtempSync, rmSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Frame } from 'duolane/event';
import { openSession, type SessionOptions } from 'duolane/host';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { all, shape, taskIdOf, type Seen, wordOf } from '../../test/a2a/support.ts';
import { artifactsIn, openPlace, type Place, until } from '../../test/support/served.ts';
import { verifies } from '../../test/verifies.ts';
import { distill, readSpec, sessionOptions, type SpecHolder, SUBMIT_TOOL } from './distill.ts';
import { distillText } from './model.ts';
import { SAMPLES } from './samples.ts';
import { DistillAgentSpec } from './spec.ts';

let place: Place;
beforeAll(async () => {
  place = await openPlace('distill', () => import('./agent.ts'));
});
afterAll(() => place[Symbol.asyncDispose]());

const [ORDERS] = SAMPLES;

verifies(
  ['S223', 'S224', 'S226'],
  'the tool is called on one lane while the program drains the other',
  async () => {
    const holder: SpecHolder = {};
    const trace = join(place.folder, 'trace.jsonl');
    {
      const options = { ...sessionOptions(holder), persistSession: false, trace };
      await using session = await openSession(options);
      await session.send(ORDERS);
      for await (const _ of session.response());
    }
    const spec = readSpec(holder);
    expect(spec).toEqual(distillText(ORDERS));
    expect(spec.tools.map(({ name }) => name)).toEqual(['find_order', 'cancel_order']);

    const [, ...frames] = readFileSync(trace, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Frame);
    const call = frames.find(({ lane, data }) => lane === 'control' && isCall(data)) as Frame;
    const { request_id: id, request } = call.data as {
      request_id: string;
      request: { subtype: string; server_name: string; message: { params: object } };
    };
    expect(request).toMatchObject({
      subtype: 'mcp_message',
      server_name: 'distill',
      message: { jsonrpc: '2.0', method: 'tools/call', params: { name: SUBMIT_TOOL } },
    });
    // Request in, executed, wrapped, response out; on the message lane the call and its result.
    expect(frames.flatMap((frame) => stepOf(frame, id))).toEqual([
      'message in: assistant calls',
      'control in: tools/call',
      'control out: the result as JSON-RPC',
      'message in: the model gets it',
      'message in: result',
    ]);
  },
);

const isCall = (data: object): boolean => JSON.stringify(data).includes('"method":"tools/call"');

function stepOf({ lane, direction, data }: Frame, id: string): readonly string[] {
  const text = JSON.stringify(data);
  const at = `${lane} ${direction}:`;
  if (data['type'] === 'result') return [`${at} result`];
  if (data['type'] === 'assistant' && text.includes('"tool_use"')) return [`${at} assistant calls`];
  if (data['type'] === 'user' && text.includes('was received')) return [`${at} the model gets it`];
  if (!text.includes(`"${id}"`)) return [];
  if (data['type'] === 'control_request') return [`${at} tools/call`];
  const wrapped = /"mcp_response":\{"jsonrpc":"2\.0".*was received/.test(text);
  return [`${at} ${wrapped ? 'the result as JSON-RPC' : 'something else'}`];
}

describe('a model that does not submit a valid spec', () => {
  const folder = mkdtempSync(join(tmpdir(), 'distill-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

  const scripted = (name: string, answers: readonly object[]): Partial<SessionOptions> => {
    const file = join(folder, `${name}.json`);
    writeFileSync(file, JSON.stringify(answers));
    return { model: `script:${file}`, executableArgs: [] };
  };
  const submit = (input: object): object => ({
    tools: [{ name: `mcp__distill__${SUBMIT_TOOL}`, input }],
  });
  const good = distillText(ORDERS) as DistillAgentSpec;

  verifies('S225', 'never calls the tool, and the error reports it', async () => {
    const model = scripted('silent', [{ text: 'I would rather not.' }]);
    await expect(distill(ORDERS, model)).rejects.toThrow(
      'submit_distill_spec was not called (called: none); the model said: I would rather not.',
    );
  });

  verifies('S225', 'submits the wrong type; the model and the caller get the reason', async () => {
    const model = scripted('wrong', [submit({ ...good, tools: 'none' }), { text: 'Sorry.' }]);
    const failure = distill(ORDERS, model);
    await expect(failure).rejects.toMatchObject({ code: 'tool' });
    await expect(failure).rejects.toThrow(/submit_distill_spec failed: .*tools/);
  });

  test('does not finish, and the error reports it', async () => {
    const model = scripted('endless', [submit({}), submit({}), submit({})]);
    await expect(distill(ORDERS, { ...model, maxTurns: 2 })).rejects.toThrow(
      /the agent failed: .*turns/i,
    );
  });

  test('submits the wrong type first and then the right one', async () => {
    const model = scripted('second', [submit({ ...good, name: 7 }), submit(good), { text: 'ok' }]);
    expect(await distill(ORDERS, model)).toEqual(good);
  });

  test.each([
    ['nothing', undefined, 'stored no spec'],
    ['text', 'text', 'invalid spec: it '],
    [
      'a tool twice',
      { ...good, tools: [...good.tools, ...good.tools] },
      'tools names a tool twice',
    ],
    [
      'an unknown tool',
      { ...good, tools: [] },
      'examples.0.tools uses find_order, which is not among the tools',
    ],
    ['no example', { ...good, examples: [] }, 'examples needs at least one example'],
  ])('rejects %s in the holder', (_, spec, reason) => {
    expect(() => readSpec({ spec })).toThrow(reason);
  });
});

test('the offline model keeps every line of an answer and the names of tools', () => {
  const spec = distillText(
    'Agent log\n\nUser: list the files,\nplease\nTool: list-files(dir="a")\nTool: fs.read\nAssistant: Here:\n- a.txt\n- b.txt\n',
  );
  expect(spec?.examples).toEqual([
    {
      input: 'list the files,\nplease',
      tools: ['list-files', 'fs.read'],
      output: 'Here:\n- a.txt\n- b.txt',
    },
  ]);
  expect(spec?.tools).toEqual([
    { name: 'list-files', purpose: 'Used as list-files(dir="a")' },
    { name: 'fs.read', purpose: 'Used as fs.read()' },
  ]);
});

describe('over A2A', () => {
  const caller = (): ReturnType<Place['caller']> => place.caller();

  test('the spec is an artifact, and a disconnected stream resumes', async () => {
    const seen = await until(caller().say(ORDERS), (_, events) => events.length === 2);
    const rest = await all(caller().subscribe(taskIdOf(seen), seen.at(-1)?.id));
    expect(shape([...seen, ...rest]).at(-1)).toBe('completed');
    const [spec] = artifactsIn(rest);
    expect(spec).toMatchObject({ artifact: { name: 'agent_spec' }, lastChunk: true });
    expect(DistillAgentSpec.parse(spec?.artifact.parts[0]?.data)).toEqual(distillText(ORDERS));
  });

  test('a text that is not a transcript fails with the reason', async () => {
    const events = await all(caller().say('hello there'));
    expect(wordOf(events.at(-1) as Seen)).toBe('failed');
    expect(JSON.stringify(events.at(-1))).toContain(
      'submit_distill_spec was not called (called: none); the model said: I see no transcript',
    );
  });

  test('a spec that the tool rejects fails with the reason', async () => {
    const tools = Array.from({ length: 60 }, (_, i) => `User: do ${i}\nTool: tool_${i}()`);
    const events = await all(caller().say(`${tools.join('\nAssistant: done\n')}\nAssistant: done`));
    expect(wordOf(events.at(-1) as Seen)).toBe('failed');
    expect(JSON.stringify(events.at(-1))).toMatch(/submit_distill_spec failed: .*<=50 items/);
  });

  test('a cancel ends the run without a spec', async () => {
    const seen: Seen[] = [];
    for await (const event of caller().say(ORDERS)) {
      seen.push(event);
      if (seen.length === 2) await caller().call('CancelTask', { id: taskIdOf(seen) });
    }
    expect(wordOf(seen.at(-1) as Seen)).toBe('canceled');
    expect(artifactsIn(seen)).toEqual([]);
  });
});
