import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import { sleep } from '../stream/abort.ts';
import type { Agent } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import {
  type EvalCase,
  type Evaluated,
  evaluate,
  type EvaluateOptions,
  markdownOf,
  otlpOf,
  reportOf,
  sendOtlp,
} from './index.ts';

/** Looks a word up, then says it; `slow`, `ask` and `fail` do what they say. */
const speaker: Agent = async function* (turn, ctx) {
  const [part] = turn.parts;
  const word = part && 'text' in part ? part.text : '';
  yield { type: 'run.started', model: 'scripted' };
  yield { type: 'step.started', step: 1 };
  yield { type: 'tool.called', callId: 'c', name: 'look_up', args: { word } };
  yield { type: 'tool.completed', callId: 'c', name: 'look_up', output: { word } };
  if (word === 'fail') throw new Error('the dictionary is lost');
  if (word === 'ask') {
    const { action } = await ctx.ask({ id: `${turn.messageId}/q`, kind: 'approval' });
    yield { type: 'text.delta', id: 't', delta: `they ${action}` };
  }
  yield { type: 'text.delta', id: 't', delta: 'The word is ' };
  if (word === 'slow') await sleep(60_000, ctx.signal);
  yield { type: 'text.delta', id: 't', delta: word };
  yield { type: 'step.finished', step: 1, reason: 'stop', usage: { outputTokens: 3 } };
  yield { type: 'run.finished', outcome: 'completed', text: '', output: { word, n: [1, 2] } };
};

async function all(cases: readonly EvalCase[], options?: EvaluateOptions): Promise<Evaluated[]> {
  const runs: Evaluated[] = [];
  for await (const run of evaluate(speaker, cases, options)) runs.push(run);
  return runs;
}

const failing = ({ scores }: Evaluated): readonly string[] =>
  scores.filter(({ pass }) => !pass).map(({ name, value, why }) => `${name} ${value}: ${why}`);

describe('an evaluation', () => {
  verifies('S268', 'scores the text, the calls and the outcome of a run', async () => {
    const [good, poor] = await all([
      {
        name: 'good',
        input: 'lane',
        expect: { text: ['WORD', 'lane'], tools: ['look_up'], output: { n: [1, 2] }, totalMs: 9e6 },
      },
      {
        name: 'poor',
        input: 'lane',
        expect: {
          text: ['lane', 'river'],
          tools: ['look_up', 'erase'],
          output: { n: [1] },
          outcome: 'rejected',
          totalMs: -1,
        },
      },
    ]);
    expect(good).toMatchObject({ pass: true, round: 1, text: 'The word is lane' });
    expect(good?.calls).toEqual([
      { name: 'look_up', args: { word: 'lane' }, output: { word: 'lane' } },
    ]);
    expect(good?.scores.map(({ name }) => name)).toEqual([
      'contract',
      'outcome',
      'text',
      'tools',
      'output',
      'total',
    ]);
    expect(poor?.pass).toBe(false);
    expect(failing(poor as Evaluated)).toEqual([
      'outcome 0: expected rejected, got completed',
      'text 0.5: expected "river", got "The word is lane"',
      'tools 0.5: called look_up; erase is missing',
      'output 0: got {"word":"lane","n":[1,2]}',
      expect.stringMatching(/^total 0: \d+ ms, at most -1 ms$/),
    ]);
  });

  test('cancels at the event that a case names, and expects the outcome canceled', async () => {
    const [run] = await all([{ name: 'stop', input: 'slow', cancelOn: 'text.delta' }]);
    expect(run).toMatchObject({ pass: true, outcome: 'canceled' });
  });

  test('answers questions with the answers of the case, and declines further ones', async () => {
    const input = 'ask';
    const [yes, no] = await all([
      { name: 'yes', input, answers: [{ action: 'accept' }], expect: { text: 'they accept' } },
      { name: 'no', input, expect: { text: 'they decline' } },
    ]);
    expect([yes?.pass, no?.pass]).toEqual([true, true]);
  });

  test('a cancel that comes after the end, and a scorer without a score, are runs that fail', async () => {
    const cases: EvalCase[] = [
      { name: 'late', input: 'lane', cancelOn: 'run.finished' },
      { name: 'next', input: 'lane' },
    ];
    const runs = await all(cases, { scorers: [(() => undefined) as never] });
    expect(runs.map(failing)).toEqual([
      [
        'outcome 0: expected canceled, got completed',
        expect.stringContaining('the scorer threw: it returned no score'),
      ],
      [expect.stringContaining('the scorer threw: it returned no score')],
    ]);
  });

  test.each([{ atOnce: 0 }, { atOnce: Number.NaN }, { rounds: 0.5 }, { timeoutMs: 2 ** 31 }])(
    'refuses %j, with which it would wait forever or do nothing',
    async (options) => {
      await expect(all([{ name: 'one', input: 'lane' }], options)).rejects.toMatchObject({
        code: 'invalid',
      });
    },
  );

  test('an agent that throws, one that is too slow and a broken scorer are runs that fail', async () => {
    const broken = (): never => {
      throw new Error('no judge');
    };
    const told: unknown[] = [];
    const say = (...words: unknown[]): void => void told.push(...words);
    const logger = { debug: say, info: say, warn: say, error: say };
    const [thrown] = await all([{ name: 'thrown', input: 'fail' }], { scorers: [broken], logger });
    expect(JSON.stringify(told)).toContain('the dictionary is lost');
    expect(failing(thrown as Evaluated)).toEqual([
      expect.stringMatching(
        /^outcome 0: expected completed, got failed \(Something went wrong inside/,
      ),
      'broken 0: the scorer threw: no judge',
    ]);
    const [slow] = await all([{ name: 'slow', input: 'slow' }], { timeoutMs: 50 });
    expect(failing(slow as Evaluated)).toEqual(['outcome 0: expected completed, got canceled']);
  });

  test('repeats cases, several concurrently, each with its round', async () => {
    const cases = ['a', 'b', 'c'].map((name) => ({ name, input: name }));
    const runs = await all(cases, { rounds: 2, atOnce: 4 });
    const names = runs.map(({ case: { name }, round }) => `${name}${round}`);
    expect(names.toSorted()).toEqual(['a1', 'a2', 'b1', 'b2', 'c1', 'c2']);
  });

  test('stops when its signal aborts or its reader breaks out', async () => {
    const stop = AbortSignal.timeout(20);
    await expect(all([{ name: 'slow', input: 'slow' }], { signal: stop })).rejects.toThrow(
      'aborted due to timeout',
    );
    for await (const run of evaluate(
      speaker,
      [
        { name: 'quick', input: 'a' },
        { name: 'slow', input: 'slow' },
      ],
      { atOnce: 2 },
    )) {
      expect(run.case.name).toBe('quick');
      break;
    }
  });

  test('rejects two cases with one name', async () => {
    const each = { name: 'same', input: 'a' };
    await expect(all([each, each])).rejects.toThrow('the name "same" is used twice');
  });
});

verifies('S268', 'the report summarizes the runs and says why one failed', async () => {
  const runs = await all([
    { name: 'good', input: 'lane' },
    { name: 'bad | odd', input: 'lane', expect: { text: 'river' } },
  ]);
  const report = reportOf('speaker', runs);
  expect(report).toMatchObject({
    format: 'duolane-eval',
    version: 1,
    runs: 2,
    passed: 1,
    scores: { contract: 1, outcome: 1, text: 0 },
    usage: { outputTokens: 6 },
    results: [{ case: 'good', tools: ['look_up'] }, { case: 'bad | odd' }],
  });
  expect(JSON.stringify(report)).not.toContain('entries');
  const text = markdownOf(report);
  expect(text).toContain('1 of 2 runs pass.');
  expect(text).toContain('| ✗ bad \\| odd | 100 % | 100 % | 0 % |');
  expect(text).toContain('- **bad | odd**, text: expected "river", got "The word is lane"');
});

describe('traces', () => {
  const attributesOf = ({ attributes }: JsonObject): Record<string, unknown> =>
    Object.fromEntries(
      (attributes as { key: string; value: Record<string, unknown> }[]).map(({ key, value }) => [
        key,
        Object.values(value)[0],
      ]),
    );

  function spansOf(body: JsonObject): readonly JsonObject[] {
    const [resource] = body['resourceSpans'] as [{ scopeSpans: [{ spans: JsonObject[] }] }];
    return resource.scopeSpans[0].spans;
  }

  verifies('S268', 'are a run with its steps and calls, and the scores as events', async () => {
    const runs = await all([{ name: 'good', input: 'lane', expect: { text: 'river' } }]);
    const spans = spansOf(otlpOf(runs, { service: 's', langfuse: true }));
    expect(spans.map(({ name }) => name)).toEqual([
      'invoke_agent agent',
      'chat scripted',
      'execute_tool look_up',
    ]);
    const [root, chat, tool] = spans as [JsonObject, JsonObject, JsonObject];
    expect(root['traceId']).toMatch(/^[\da-f]{32}$/);
    expect(root['spanId']).toMatch(/^[\da-f]{16}$/);
    expect(root).not.toHaveProperty('parentSpanId');
    for (const span of [chat, tool]) {
      expect(span['parentSpanId']).toBe(root['spanId']);
      expect(span['traceId']).toBe(root['traceId']);
      expect(span['startTimeUnixNano']).toMatch(/^\d{19}$/);
    }
    expect(attributesOf(chat)).toMatchObject({
      'gen_ai.usage.output_tokens': '3',
      'langfuse.observation.type': 'generation',
      'langfuse.observation.completion_start_time': expect.stringMatching(/^20.*Z$/),
    });
    expect(attributesOf(root)).toMatchObject({ 'langfuse.trace.metadata.text': '0' });
    const results = (root['events'] as JsonObject[]).map(attributesOf);
    expect(results).toContainEqual({
      'gen_ai.evaluation.name': 'text',
      'gen_ai.evaluation.score.value': 0,
      'gen_ai.evaluation.score.label': 'fail',
      'gen_ai.evaluation.explanation': 'expected "river", got "The word is lane"',
    });
  });

  test('content is not exported by default; a run that is sent twice is the same trace', async () => {
    const runs = await all([{ name: 'good', input: 'lane' }]);
    const without = JSON.stringify(otlpOf(runs, { service: 's' }));
    expect(without).not.toContain('lane"');
    expect(without).not.toContain('langfuse');
    expect(JSON.stringify(otlpOf(runs, { service: 's' }))).toBe(without);
    expect(JSON.stringify(otlpOf(runs, { service: 's', content: true }))).toContain('"lane"');
  });

  test('a collector that rejects traces, all or some, is an error with its text', async () => {
    const answers = [
      { status: 200, body: '{}' },
      { status: 401, body: 'who are you?' },
      { status: 200, body: '{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}' },
    ];
    const paths: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      const { status = 500, body = '' } = answers[paths.length] ?? {};
      paths.push(request.url);
      request.resume().on('end', () => response.writeHead(status).end(body));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await sendOtlp(`${url}/`, {});
    await expect(sendOtlp(url, {})).rejects.toThrow('rejected the traces: 401 who are you?');
    await expect(sendOtlp(`${url}/v1/traces`, {})).rejects.toThrow(/rejected 2 spans: .*too old/);
    expect(paths).toEqual(['/v1/traces', '/v1/traces', '/v1/traces']);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await expect(sendOtlp(url, {})).rejects.toThrow('is the collector running?');
  });
});
