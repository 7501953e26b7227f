import { expect, test } from 'vitest';
import { answerEach } from '../../../test/adapters/answer-each.ts';
import { contextFor, newTask } from '../../../test/contracts/agent.contract.ts';
import { turnOf } from '../../../test/support/arbitraries.ts';
import type { Ask } from '../../ask.ts';
import type { JsonObject } from '../../json.ts';
import { type AdkRunner, googleAdk } from './google-adk-agent.ts';

/** A runner of ADK that asks twice for something that belongs to no call, with its session. */
function askingRunner(): { readonly runner: AdkRunner; readonly sent: string[][] } {
  const sent: string[][] = [];
  const events: JsonObject[] = [];
  const runner: AdkRunner = {
    appName: 'app',
    agent: {},
    sessionService: {
      getSession: async () => ({ events }),
      createSession: async () => ({ events }),
    },
    async *runAsync({ newMessage }: { newMessage: { parts: JsonObject[] } }) {
      events.push({ author: 'user', content: newMessage });
      const responses = newMessage.parts.map((part) => part['functionResponse'] as JsonObject);
      sent.push(responses.map((response) => String(response?.['id'] ?? 'message')));
      const args = { message: `Key ${sent.length}?` };
      const functionCall = { id: `r${sent.length}`, name: 'adk_request_credential', args };
      const part = sent.length < 3 ? { functionCall } : { text: 'Done.' };
      yield { author: 'model', content: { parts: [part] } };
    },
  };
  return { runner, sent };
}

test.each([
  ['in one run', 600_000],
  ['after suspensions', 0],
])('each answer is sent to the session once, %s', async (_when, suspendAfterMs) => {
  const { runner, sent } = askingRunner();
  const asked = await answerEach(googleAdk(runner), ['accept', 'accept'], { suspendAfterMs });
  expect(asked).toEqual(['Key 1?', 'Key 2?']);
  expect(sent).toEqual([['message'], ['r1'], ['r2']]);
});

test.each([
  ['as it is', undefined, true],
  ['with changes', { name: 'pay', args: { to: 'alice' } }, false],
])('a call that is approved %s is confirmed: %j', async (_, content, expected) => {
  const sent: unknown[] = [];
  const runner: AdkRunner = {
    appName: 'app',
    agent: {},
    sessionService: { getSession: async () => ({}), createSession: async () => ({}) },
    async *runAsync({ newMessage }: { newMessage: { parts: JsonObject[] } }) {
      const { functionResponse } = newMessage.parts[0] ?? {};
      if (functionResponse) sent.push((functionResponse as JsonObject)['response']);
      const originalFunctionCall = { id: 'c1', name: 'pay', args: { to: 'mallory' } };
      const request = {
        id: 'r1',
        name: 'adk_request_confirmation',
        args: { originalFunctionCall, toolConfirmation: { hint: 'Pay?' } },
      };
      yield {
        author: 'model',
        content: { parts: [functionResponse ? { text: 'Done.' } : { functionCall: request }] },
      };
    },
  };
  const ask: Ask = async ({ id }) => ({
    id,
    action: 'accept',
    ...(content !== undefined && { content }),
  });
  const { ctx } = contextFor(newTask(), ask);
  const events = googleAdk(runner)(turnOf('m1'), ctx);
  for await (const { type } of events) expect(type).not.toBe('tool.failed');
  expect(sent).toEqual([{ confirmed: expected }]);
});
