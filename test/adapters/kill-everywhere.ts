import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { checkLaws } from '../../src/event/index.ts';
import type { Agent, Entry } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { memoryDatabase } from '../../src/task/memory/memory-log.ts';
import { type ModelReply, type ModelRequest, startModelServer } from '../support/model-server.ts';
import { MORTAL, textOf, World } from '../task/replica-world.ts';
import type { Scene, SceneTool } from './contract/harness.ts';

export interface KillHarness {
  readonly build: (scene: Scene) => Agent | Promise<Agent>;
  /** Whether the framework can ask a person about a call. */
  readonly approval?: boolean;
  /** Members of a request that differ in each run, such as the id of a message. */
  readonly mask?: (body: JsonObject) => unknown;
}

/** The points to kill at. Each costs a lease, so by default only some are tried. */
const STRIDE = process.env['DUOLANE_KILL_EVERYWHERE'] === '1' ? 1 : 5;

const TURN = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'go' }] };

const call = (name: string, id: string): NonNullable<ModelReply['tools']>[number] => ({
  id,
  name,
  input: { a: 1, id },
});

const replies = (approval: boolean): readonly ModelReply[] => [
  { thinking: 'Hm.', text: 'First I add. ', tools: [call('add', 'call_0_a')] },
  { tools: [call('slow', 'call_1_a'), call('add', 'call_1_b')] },
  { text: 'That may break. ', tools: [call('broken', 'call_2_a')] },
  { text: 'May I? ', tools: [call(approval ? 'guarded' : 'add', 'call_3_a')] },
  { tools: [call('add', 'call_4_a')] },
  { text: 'The answer is 42.' },
];

/** The tools of the scene; each call is an effect that is counted by the id in its arguments. */
function toolsOf(effects: string[], approval: boolean): SceneTool[] {
  const properties = { a: { type: 'number' }, id: { type: 'string' } };
  const schema = { type: 'object', properties, required: ['a', 'id'] };
  const make = (name: string, work: () => unknown): SceneTool => ({
    name,
    description: `The tool ${name}`,
    schema,
    ...(name === 'guarded' && { approval: true }),
    run: async ({ id }) => {
      effects.push(String(id));
      await work();
      return `result of ${String(id)}`;
    },
  });
  return [
    make('add', () => {}),
    make('slow', () => sleep(5)),
    make('broken', () => {
      throw new Error('the disk is full');
    }),
    ...(approval ? [make('guarded', () => {})] : []),
  ];
}

interface Ended {
  readonly entries: readonly Entry[];
  readonly bodies: readonly string[];
  readonly effects: readonly string[];
}

/** Runs the scene on one replica, kills it after an entry, and ends it on another. */
async function play(harness: KillHarness, killAt = Infinity): Promise<Ended> {
  const { approval = true, mask = (body) => body } = harness;
  const script = replies(approval);
  const answerTo = ({ body }: ModelRequest): ModelReply => {
    const text = JSON.stringify(body);
    const done = script.findIndex((_, index) => !text.includes(`call_${index}_a`));
    return script[done] ?? { status: 400, message: 'the script is over' };
  };
  await using model = await startModelServer(answerTo);
  const effects: string[] = [];
  const build = async (): Promise<Agent> =>
    harness.build({ url: model.url, tools: toolsOf(effects, approval) });
  const database = memoryDatabase();
  await using world = new World(database);
  const [first, second, reader] = [world.replica(MORTAL), world.replica(), world.replica()];
  const agents = { a: await build() };
  const others = { a: await build() };
  const runner = first.runner(agents, { suspendAfterMs: 0 });
  const people = reader.runner({}, { maxRuns: 0 });
  await runner.submit(TURN);
  const entries: Entry[] = [];
  for await (const entry of reader.log.read('t', 0)) {
    entries.push(entry);
    if (entry.seq === killAt) {
      first.kill();
      second.runner(others, { suspendAfterMs: 0 });
    }
    if (entry.type === 'input.required') {
      const answers = [{ id: entry.request.id, action: 'accept' } as const];
      await people.submit({ ...TURN, messageId: `answer ${entry.seq}`, parts: [], answers });
    }
  }
  const bodies = model.calls.map(({ body }) => JSON.stringify(mask(body)));
  return { entries, bodies, effects };
}

/** What readers were shown, with deltas joined. The ends of parallel calls may come in any order. */
function shown(entries: readonly Entry[]): readonly string[] {
  const all: string[] = [];
  let text = '';
  for (const entry of entries) {
    if (entry.type === 'text.delta' || entry.type === 'reasoning.delta') text += entry.delta;
    else if (/^(tool\.(called|completed|failed)|artifact|status)/.test(entry.type)) {
      const { seq: _seq, at: _at, ...rest } = entry;
      all.push(text, JSON.stringify({ ...rest, ms: undefined }));
      text = '';
    }
  }
  return [...all, text].filter((line) => line !== '').toSorted();
}

const count = (entries: readonly Entry[], type: Entry['type']): number =>
  entries.filter((entry) => entry.type === type).length;

const repeated = (all: readonly string[]): readonly string[] =>
  all.filter((each, index) => all.indexOf(each) < index);

/** A run that was killed after entry `killAt` has ended like the unbroken one. */
function compare({ entries, bodies, effects }: Ended, whole: Ended, killAt: number): void {
  expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, index) => index + 1));
  expect(checkLaws(entries)).toEqual([]);
  const end = whole.entries.at(-1) as Entry & { readonly type: 'run.finished' };
  expect(entries.at(-1)).toMatchObject({ outcome: 'completed', text: end.text });
  expect(textOf(entries)).toBe(textOf(whole.entries));
  expect(entries.filter((entry) => entry.type === 'run.started' && entry.discard)).toEqual([]);
  expect(shown(entries)).toEqual(shown(whole.entries));
  expect(new Set(bodies)).toEqual(new Set(whole.bodies));
  // The model call under way may be repeated, and so may the tool calls of one message. On a busy
  // machine the first replica may also lose its lease before it is killed.
  const interrupted = count(entries, 'run.started') - count(entries, 'run.finished');
  expect(repeated(bodies).length).toBeLessThanOrEqual(interrupted);
  expect(new Set(effects)).toEqual(new Set(whole.effects));
  const finished = entries
    .slice(0, killAt)
    .flatMap((entry) =>
      entry.type === 'tool.completed' || entry.type === 'tool.failed' ? entry.callId : [],
    );
  expect(repeated(effects).filter((id) => finished.includes(id))).toEqual([]);
  expect(new Set(repeated(effects).map((id) => id.slice(0, 6))).size).toBeLessThanOrEqual(
    interrupted,
  );
}

/** A run that is killed after any entry ends on another replica as if nothing had happened. */
export function killEverywhere(name: string, harness: KillHarness): void {
  test(`${name}: killed after any event, no finished call is made again`, async () => {
    const whole = await play(harness);
    expect(repeated(whole.bodies)).toEqual([]);
    expect(repeated(whole.effects)).toEqual([]);
    expect(whole.entries.at(-1)).toMatchObject({ outcome: 'completed' });
    for (let killAt = 2; killAt < whole.entries.length; killAt += STRIDE) {
      const ended = await play(harness, killAt);
      try {
        compare(ended, whole, killAt);
      } catch (error) {
        throw new Error(`killed after entry ${killAt}`, { cause: error });
      }
    }
  }, 600_000);
}
