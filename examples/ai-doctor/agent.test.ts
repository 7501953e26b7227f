import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AgentModule, type Served, serve } from 'duolane/serve';
import { memoryLog } from 'duolane/task';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { all, Caller, shape, taskIdOf, textOf, type Seen, wordOf } from '../../test/a2a/support.ts';
import { peer } from '../../test/peers.ts';
import { suite, verifies } from '../../test/verifies.ts';
import { PatientBriefing } from './patient-briefing.ts';
import { sampleNames, sampleText } from './samples.ts';

// Served over A2A with the real agent CLI, called with fetch alone.

const sdk = await peer('a2a-sdk');

interface Client {
  sendMessageStream(params: unknown): AsyncIterable<unknown>;
}

const home = mkdtempSync(join(tmpdir(), 'ai-doctor-'));
const before = process.env['CLAUDE_CONFIG_DIR'];
let served: Served;
let module: AgentModule;

beforeAll(async () => {
  process.env['CLAUDE_CONFIG_DIR'] = home; // sessions of the CLI go here, not into the home of the user
  module = await import('./agent.ts');
  served = await serve({ 'ai-doctor': module }, { log: memoryLog(), page: false });
});
afterAll(async () => {
  await served[Symbol.asyncDispose]();
  if (before === undefined) delete process.env['CLAUDE_CONFIG_DIR'];
  else process.env['CLAUDE_CONFIG_DIR'] = before;
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
});

interface Artifact {
  readonly name?: string;
  readonly parts: readonly { readonly data?: unknown }[];
}

const caller = (): Caller => {
  const it = new Caller(served.url);
  return Object.assign(it, { url: `${served.url}/a2a/ai-doctor` });
};
const artifacts = (events: readonly Seen[]): readonly Artifact[] =>
  events.flatMap(({ result }) => {
    const { artifact } = (result['artifactUpdate'] ?? {}) as { readonly artifact?: Artifact };
    return artifact ? [artifact] : [];
  });
const briefingIn = (events: readonly Seen[]): unknown => {
  const data = artifacts(events).find(({ name }) => name === 'briefing')?.parts[0]?.data;
  return PatientBriefing.parse(data);
};

describe('over A2A', () => {
  verifies(
    'S165',
    'a record becomes text, searches as status, and the briefing as an artifact',
    async () => {
      const events = await all(caller().say(await sampleText()));
      expect(shape(events).at(0)).toBe('task');
      expect(wordOf(events.at(-1) as Seen)).toBe('completed');
      expect(briefingIn(events)).toMatchObject({
        medicationSafety: expect.arrayContaining([
          expect.objectContaining({ medications: ['metformin'] }),
        ]),
      });
      expect(JSON.stringify(events)).toContain('Searching the guidelines: metformin');
      expect(textOf(events)).toContain('without a language model');
    },
  );

  test('a record may be data with text beside it, and a disconnected stream resumes at its event', async () => {
    const data: unknown = JSON.parse(await sampleText('gout-kidney'));
    const parts = [{ text: 'Please brief me on this patient:' }, { data }];
    const stream = caller().stream('SendStreamingMessage', {
      message: { messageId: randomUUID(), role: 'ROLE_USER', parts },
    });
    const seen: Seen[] = [];
    for await (const event of stream) {
      seen.push(event);
      if (seen.length === 3) break; // the client disconnects; the run continues
    }
    const rest = await all(caller().subscribe(taskIdOf(seen), seen.at(-1)?.id));
    expect(wordOf(rest.at(-1) as Seen)).toBe('completed');
    expect(briefingIn([...seen, ...rest])).toMatchObject({ citations: expect.any(Array) });
  });

  test('a second record in the same conversation gets its own briefing', async () => {
    const base = { age: 60, sex: 'female', conditions: [], labs: [], allergies: [] };
    const send = (drugs: readonly string[], contextId?: string): Promise<Seen[]> => {
      const data = { ...base, medications: drugs.map((name) => ({ name })) };
      const about = { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ data }] };
      const message = contextId === undefined ? about : { ...about, contextId };
      return all(caller().stream('SendStreamingMessage', { message }));
    };
    const first = await send(['metformin', 'lisinopril']);
    const context = /"contextId":"([^"]+)"/.exec(JSON.stringify(first))?.[1];
    const second = await send(['warfarin', 'ibuprofen'], context);
    expect(wordOf(second.at(-1) as Seen)).toBe('completed');
    expect(briefingIn(second)).toMatchObject({
      summary: expect.stringContaining('taking warfarin and ibuprofen'),
    });
  });

  test.each([
    ['{"age": 50', 'is not JSON'],
    [
      '{"age": 50, "sex": "female", "conditions": [], "medications": [], "labs": [{"name": "potassium", "value": 45}], "allergies": []}',
      'potassium 45 is impossible',
    ],
  ])('%s is rejected with the reason', async (text, reason) => {
    const events = await all(caller().say(text));
    expect(wordOf(events.at(-1) as Seen)).toBe('rejected');
    expect(JSON.stringify(events.at(-1))).toContain(reason);
  });

  test('a cancel ends the run as canceled, without a briefing', async () => {
    const stream = caller().say(await sampleText());
    const seen: Seen[] = [];
    for await (const event of stream) {
      seen.push(event);
      if (seen.length === 2) await caller().call('CancelTask', { id: taskIdOf(seen) });
    }
    expect(wordOf(seen.at(-1) as Seen)).toBe('canceled');
    expect(artifacts(seen).filter(({ name }) => name === 'briefing')).toEqual([]);
  });
});

suite('a2a-sdk', sdk.reason, () => {
  test('the official client reads all events, with the briefing and the end', async () => {
    const { ClientFactory } = (await sdk.import('@a2a-js/sdk/client')) as {
      ClientFactory: new () => { createFromUrl(url: string): Promise<Client> };
    };
    const client = await new ClientFactory().createFromUrl(served.url);
    const value = await sampleText('penicillin-allergy');
    const events: unknown[] = [];
    for await (const event of client.sendMessageStream({
      message: { messageId: randomUUID(), role: 1, parts: [{ content: { $case: 'text', value } }] },
    }))
      events.push(event);
    const text = JSON.stringify(events);
    expect(text).toContain('Searching the guidelines: Penicillin allergy amoxicillin');
    expect(text).toContain('all-penicillin');
  });
});

test('the card describes the agent, and the form has every sample patient', async () => {
  const response = await fetch(`${served.url}/a2a/ai-doctor/.well-known/agent-card.json`);
  expect(await response.json()).toMatchObject({
    name: 'AI Doctor',
    description: expect.stringContaining('not medical advice'),
    skills: [{ id: 'patient-briefing' }],
  });
  const form = module.options?.form;
  expect(form?.['examples']).toHaveLength((await sampleNames()).length);
  expect(form?.['properties']).toHaveProperty('medications');
});
