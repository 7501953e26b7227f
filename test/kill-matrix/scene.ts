import { setTimeout as sleep } from 'node:timers/promises';
import type { Turn } from '../../src/event/types.ts';
import type { SceneTool } from '../adapters/contract/harness.ts';
import type { ModelReply, ModelRequest } from '../support/model-server.ts';

/** The run that every agent of the matrix makes: the turn, the model and the tools. */
export const TURN: Turn = {
  agent: 'a',
  task: 't',
  context: 'c',
  messageId: 'm',
  parts: [{ text: 'go' }],
};

export interface Script {
  readonly approval: boolean;
  readonly toolName: (name: string) => string;
  /** The delay between two deltas, so that they are not all of one commit. */
  readonly pieceDelayMs?: number;
}

export function replies({ approval, toolName, pieceDelayMs = 0 }: Script): readonly ModelReply[] {
  const call = (name: string, id: string): NonNullable<ModelReply['tools']>[number] => ({
    id,
    name: toolName(name),
    input: { a: 1, id },
  });
  const all: readonly ModelReply[] = [
    { thinking: 'Hm.', text: 'First I add. ', tools: [call('add', 'call_0_a')] },
    { tools: [call('slow', 'call_1_a'), call('add', 'call_1_b')] },
    { text: 'That may break. ', tools: [call('broken', 'call_2_a')] },
    { text: 'May I? ', tools: [call(approval ? 'guarded' : 'add', 'call_3_a')] },
    { tools: [call('add', 'call_4_a')] },
    { text: 'The answer is 42.' },
  ];
  return all.map((reply) => ({ ...reply, pieceDelayMs }));
}

/** Answers a request by the calls that it has: the same request gets the same reply. */
export function answerTo(script: Script): (request: Pick<ModelRequest, 'body'>) => ModelReply {
  const all = replies(script);
  return ({ body }) => {
    const text = JSON.stringify(body);
    const done = all.findIndex((_, index) => !text.includes(`call_${index}_a`));
    return all[done] ?? { status: 400, message: 'the script is over' };
  };
}

/** The tools of the scene. Each call is an effect, counted by the id in its arguments. */
export function toolsOf(
  onEffect: (id: string) => void,
  { approval }: Pick<Script, 'approval'>,
): SceneTool[] {
  const properties = { a: { type: 'number' }, id: { type: 'string' } };
  const schema = { type: 'object', properties, required: ['a', 'id'] };
  const make = (name: string, work: () => unknown): SceneTool => ({
    name,
    description: `The tool ${name}`,
    schema,
    ...(name === 'guarded' && { approval: true }),
    run: async ({ id }) => {
      onEffect(String(id));
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
