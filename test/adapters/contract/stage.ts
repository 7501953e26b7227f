import assert from 'node:assert/strict';
import { test } from 'vitest';
import type { Ask } from '../../../src/ask.ts';
import { checkLaws, normalizeAgent, withRetry } from '../../../src/event/index.ts';
import type { Agent, AgentEvent, Snapshot } from '../../../src/event/types.ts';
import type { JsonObject } from '../../../src/json.ts';
import { contextFor, foldRun, newTask } from '../../contracts/agent.contract.ts';
import { turnOf } from '../../support/arbitraries.ts';
import {
  startModelServer,
  type ModelReply,
  type ModelScript,
  type ModelServer,
} from '../../support/model-server.ts';
import type { AdapterHarness, Gap, SceneTool } from './harness.ts';
import { readByOthers } from './readers.ts';

export const TEXT: readonly string[] = ['The ', 'answer ', 'is ', '42.'];
export const whole: string = TEXT.join('');
/** A text that no test waits for. */
export const ENDLESS: ModelReply = {
  text: Array.from({ length: 10_000 }, (_, i) => `w${i} `),
  pieceDelayMs: 3,
};
const numbers = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };

export const add: SceneTool = {
  name: 'add',
  description: 'Adds one',
  schema: numbers,
  run: async ({ a }) => `sum ${Number(a) + 1}`,
};
export const broken: SceneTool = {
  name: 'broken',
  description: 'Never works',
  schema: numbers,
  run: async () => {
    throw new Error('the disk is full');
  },
};

export type Of<Type extends AgentEvent['type']> = AgentEvent & { readonly type: Type };
export const only = <Type extends AgentEvent['type']>(
  events: readonly AgentEvent[],
  type: Type,
): readonly Of<Type>[] => events.filter((event): event is Of<Type> => event.type === type);

export const joined = (
  events: readonly AgentEvent[],
  type: 'text.delta' | 'reasoning.delta',
): string =>
  only(events, type)
    .map(({ delta }) => delta)
    .join('');

export interface PlayOptions {
  readonly tools?: readonly SceneTool[];
  readonly output?: JsonObject;
  readonly ask?: Ask;
  readonly task?: Snapshot;
  /** Another agent of the framework than the harness's own. */
  readonly build?: AdapterHarness['build'];
  readonly wrap?: (agent: Agent) => Agent;
  /** Sees each event; `leave` makes the reader go. */
  readonly each?: (event: AgentEvent, abort: () => void) => unknown;
}

export interface Played {
  readonly events: readonly AgentEvent[];
  readonly end: Of<'run.finished'>;
  readonly model: ModelServer;
}

type ToolCall = NonNullable<ModelReply['tools']>[number];

/**
 * Where the cases are played: one framework's agent on a scripted model. Each run is held to the
 * laws, and read in every protocol by the packages of others.
 */
export class Stage {
  readonly harness: AdapterHarness;
  readonly graceMs: number;

  constructor(harness: AdapterHarness) {
    this.harness = harness;
    this.graceMs = harness.graceMs ?? 250;
  }

  toolName(plain: string): string {
    return this.harness.toolName?.(plain) ?? plain;
  }

  call(tool: string, input: JsonObject, id = `call_${tool}`): ToolCall {
    return { id, name: this.toolName(tool), input };
  }

  // Without a report of the framework there is nothing to test, so the test is not defined.
  unless(gap: Gap): typeof test | (() => void) {
    return this.harness.gaps?.[gap] === undefined ? test : () => undefined;
  }

  retrying = (agent: Agent): Agent =>
    this.harness.retries === 'own' ? agent : withRetry(agent, { baseMs: 1 });

  async play(script: ModelScript, options: PlayOptions = {}): Promise<Played> {
    await using model = await startModelServer(script);
    return await this.playOn(model, options);
  }

  async playOn(model: ModelServer, options: PlayOptions): Promise<Played> {
    const { tools = [], output, ask, task = newTask(), wrap = (agent) => agent, each } = options;
    const { build = this.harness.build } = options;
    const agent = await build({ url: model.url, tools, ...(output && { output }) });
    const { ctx, abort } = contextFor(task, ask);
    const events: AgentEvent[] = [];
    for await (const event of normalizeAgent(wrap(agent), { graceMs: this.graceMs })(
      turnOf('m1'),
      ctx,
    )) {
      events.push(event);
      if (each?.(event, () => abort('canceled')) === 'leave') break;
    }
    const isWhole = events.at(-1)?.type === 'run.finished';
    assert.deepEqual(checkLaws(events, { open: !isWhole, calls: task.calls }), []);
    foldRun(task, events);
    if (options.task === undefined) await readByOthers(events);
    return { events, end: events.at(-1) as Of<'run.finished'>, model };
  }
}
