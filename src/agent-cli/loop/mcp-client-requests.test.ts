import { expect, test } from 'vitest';
import type { JsonObject } from '../../json.ts';
import type { SamplingPolicy } from '../command-line/settings.ts';
import { type ModelRequest, NO_USAGE } from '../models/types.ts';
import { SamplingBudget } from '../tools/mcp/sampling-budget.ts';
import { answerServer, type ServerRequests } from './mcp-client-requests.ts';

const { signal } = new AbortController();

/** A server named `s` that has `calls` open calls, and the requests that reach the model. */
function session(sampling: Partial<SamplingPolicy>, calls = 1) {
  const requests: ModelRequest[] = [];
  const budget = new SamplingBudget();
  const ends = Array.from({ length: calls }, () => budget.begin());
  const policy = { servers: ['s'], maxRequests: 2, maxTokens: 100, ...sampling };
  let tokens = 0;
  const able: ServerRequests = {
    lane: undefined as never,
    cwd: '/',
    model: () => ({
      id: 'm',
      model: {
        name: 'm',
        keySource: 'none',
        async *stream(request) {
          requests.push(request);
          yield { type: 'text', text: 'hi' };
          yield { type: 'stop', reason: 'end_turn', usage: { ...NO_USAGE, output_tokens: 7 } };
        },
      },
    }),
    sampling: policy,
    countSampling: () => budget.take(policy.maxRequests),
    addUsage: (usage) => (tokens += usage.output_tokens),
  };
  const sample = (params: JsonObject = {}, server = 's'): Promise<JsonObject> =>
    answerServer(able, server, 'sampling/createMessage', { messages: [], ...params }, signal);
  return { sample, requests, budget, ends, tokens: () => tokens };
}

test('sampling is refused for a server that the settings do not name', async () => {
  const { sample, requests } = session({});
  await expect(sample({}, 'other')).rejects.toThrow('sampling is not allowed for MCP server');
  expect(requests).toEqual([]);
});

test('sampling is limited in requests for each call, and starts again with the next', async () => {
  const { sample, requests, budget, ends } = session({});
  await sample();
  await sample();
  await expect(sample()).rejects.toThrow('limit of 2 sampling requests (sampling.maxRequests)');
  for (const end of ends) end();
  await expect(sample()).rejects.toThrow('no tool call of this server is running');
  budget.begin();
  await sample();
  expect(requests).toHaveLength(3);
});

test.each([
  [9e9, 100],
  [50, 50],
  [-1, 100],
  [Number.NaN, 100],
  ['9', 100],
])('sampling with %j tokens gets at most %j', async (maxTokens, expected) => {
  const { sample, requests, tokens } = session({});
  await sample({ maxTokens });
  expect(requests[0]?.maxTokens).toBe(expected);
  expect(tokens()).toBe(7);
});

test('sampling with a long prompt is refused', async () => {
  const { sample, requests } = session({});
  const content = { type: 'text', text: 'x'.repeat(100_001) };
  await expect(sample({ messages: [{ role: 'user', content }] })).rejects.toThrow(
    'limit of 100000 characters',
  );
  expect(requests).toEqual([]);
});
