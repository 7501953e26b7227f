import { expect, test } from 'vitest';
import { answerEach } from '../../../test/adapters/answer-each.ts';
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
