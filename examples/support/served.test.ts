import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startServer, type TestServer } from '../../test/page/server.ts';
import { peer } from '../../test/peers.ts';
import { suite } from '../../test/verifies.ts';

// Every sample as a newcomer meets it: `duolane serve examples/<name>`, called by the official A2A
// client.

const sdk = await peer('a2a-sdk');

interface Client {
  sendMessageStream(params: unknown): AsyncIterable<unknown>;
  resubscribeTask(params: unknown): AsyncIterable<unknown>;
  cancelTask(params: unknown): Promise<unknown>;
}

/** What each is asked, where it ends, and what must be in the stream then. */
const SAMPLES: readonly (readonly [string, string, RegExp])[] = [
  ['ai-doctor', 'TASK_STATE_COMPLETED', /Medication|medicationSafety/],
  ['tickets', 'TASK_STATE_INPUT_REQUIRED', /create_ticket|Create this/],
  ['distill', 'TASK_STATE_COMPLETED', /agent_spec/],
  ['text-to-sql', 'TASK_STATE_COMPLETED', /query_results/],
];

suite('a2a-sdk', sdk.reason, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer(SAMPLES.map(([name]) => `examples/${name}`));
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const connect = async (name: string): Promise<Client> => {
    const { ClientFactory } = (await sdk.import('@a2a-js/sdk/client')) as {
      ClientFactory: new () => { createFromUrl(url: string, card: string): Promise<Client> };
    };
    const base = `${server.url}/a2a/${name}/`;
    return new ClientFactory().createFromUrl(base, '.well-known/agent-card.json');
  };
  const ask = async (name: string): Promise<object> => {
    const { agents } = (await (await fetch(`${server.url}/api/agents`)).json()) as {
      agents: { name: string; form?: { examples?: unknown[] } }[];
    };
    const sample = agents.find((agent) => agent.name === name)?.form?.examples?.[0];
    const value = typeof sample === 'string' ? sample : JSON.stringify(sample);
    const parts = [{ content: { $case: 'text', value } }];
    return { message: { messageId: randomUUID(), role: 1, parts } };
  };
  const idIn = (event: unknown): string =>
    /"(?:taskId|id)":"([^"]+)"/.exec(JSON.stringify(event))?.[1] ?? '';
  const stateOf = async (id: string, name: string): Promise<string> => {
    const response = await fetch(`${server.url}/a2a/${name}/tasks/${id}`, {
      headers: { 'a2a-version': '1.0' },
    });
    return ((await response.json()) as { status: { state: string } }).status.state;
  };

  test.each(SAMPLES)(
    '%s is left in the middle, taken up again, and comes to its end',
    async (name, end, words) => {
      const client = await connect(name);
      let id = '';
      for await (const event of client.sendMessageStream(await ask(name))) {
        if (id !== '') break; // the second event: gone
        id = idIn(event);
      }
      const rest: unknown[] = [];
      for await (const event of client.resubscribeTask({ id, tenant: '' })) rest.push(event);
      expect(await stateOf(id, name)).toBe(end);
      expect(JSON.stringify(rest)).toMatch(words);
    },
  );

  test.each(SAMPLES)('%s can be canceled, and says so once', async (name) => {
    const client = await connect(name);
    let id = '';
    const events: unknown[] = [];
    for await (const event of client.sendMessageStream(await ask(name))) {
      events.push(event);
      if (id !== '') continue;
      id = idIn(event);
      await client.cancelTask({ id, tenant: '' });
    }
    expect(await stateOf(id, name)).toBe('TASK_STATE_CANCELED');
    expect(JSON.stringify(events.at(-1))).toContain('Response stopped.');
  });
});
