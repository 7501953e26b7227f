import fc from 'fast-check';
import { expect } from 'vitest';
import type { Agent, AgentEvent } from '../../src/event/types.ts';
import { compareIds } from '../../src/event/index.ts';
import { SseDecoder, type SseMessage } from '../../src/wire/index.ts';
import { verifies } from '../verifies.ts';
import { mountAgent } from './support.ts';

/** What an agent does, step by step; it may break every rule. */
const step: fc.Arbitrary<AgentEvent | 'throw' | 'breathe' | 'return'> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('text.delta' as const),
      id: fc.constant('t'),
      delta: fc.string({ minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.constant('breathe' as const) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('status' as const),
      message: fc.string({ minLength: 1 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('artifact' as const),
      artifactId: fc.constantFrom('a', 'b'),
      parts: fc.constant([{ text: 'x' }]),
      append: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<AgentEvent>(
      {
        type: 'retry',
        attempt: 1,
        error: { code: 'overloaded', message: 'busy', retryable: true },
        discard: true,
      },
      { type: 'tool.called', callId: 'c', name: 'look', args: {} },
      { type: 'tool.completed', callId: 'c', name: 'look', output: 1 },
      { type: 'run.finished', outcome: 'rejected', text: 'no' },
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom('throw' as const, 'return' as const) },
);

/** What clients and the wire do meanwhile. */
const schedule = fc.record({
  steps: fc.array(step, { maxLength: 30 }),
  cuts: fc.array(fc.nat({ max: 12 }), { maxLength: 6 }),
  cancelAfter: fc.option(fc.nat({ max: 20 }), { nil: undefined }),
  others: fc.array(fc.nat({ max: 20 }), { maxLength: 2 }),
});

const breathe = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const play = (steps: readonly (AgentEvent | 'throw' | 'breathe' | 'return')[]): Agent =>
  async function* () {
    for (const each of steps) {
      if (each === 'throw') throw new Error('as it goes');
      if (each === 'return') return;
      if (each === 'breathe') await breathe();
      else yield each;
    }
  };

verifies(
  ['S130', 'S132', 'S133', 'S191', 'S197'],
  'for any behaviour of agent, connection and callers no event is lost, repeated or reordered, and each stream ends once',
  async () => {
    await fc.assert(
      fc.asyncProperty(schedule, async ({ steps, cuts, cancelAfter, others }) => {
        const url = 'http://127.0.0.1/agent';
        await using mounted = mountAgent(url, play(steps));
        const post = async (method: string, params: unknown, after?: string): Promise<Response> =>
          mounted.handle(
            new Request(url, {
              method: 'POST',
              headers: {
                'content-type': 'application/json',
                ...(after !== undefined && { 'last-event-id': after }),
              },
              body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
            }),
          );
        /** Reads so many events, or to the end, and then leaves. */
        const read = async (
          response: Response,
          limit: number,
          seen: SseMessage[],
        ): Promise<void> => {
          const decoder = new SseDecoder();
          const from = seen.length;
          for await (const chunk of response.body ?? []) {
            for (const event of decoder.decode(chunk)) seen.push(event as SseMessage);
            if (seen.length - from >= limit) return;
          }
        };
        const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'go' }] };
        const seen: SseMessage[] = [];
        await read(await post('SendStreamingMessage', { message }), (cuts[0] ?? 99) + 1, seen);
        const { task } = (JSON.parse(seen[0]!.data) as { result: { task: { id: string } } }).result;
        const again = (after: string): Promise<Response> =>
          post('SubscribeToTask', { id: task.id }, after);
        const canceling =
          cancelAfter === undefined
            ? undefined
            : (async () => {
                for (let n = 0; n < cancelAfter; n++) await breathe();
                await (await post('CancelTask', { id: task.id })).text();
              })();
        for (const cut of cuts.slice(1))
          await read(await again(seen.at(-1)!.lastEventId), cut + 1, seen);
        if (!isFinal(seen.at(-1)!))
          await read(await again(seen.at(-1)!.lastEventId), Infinity, seen);
        await canceling;

        const whole: SseMessage[] = [];
        await read(await again('0'), Infinity, whole);
        expect(seen).toEqual(whole);
        expect(seen.filter(isFinal)).toHaveLength(1);
        expect(isFinal(seen.at(-1)!)).toBe(true);
        for (const [i, { lastEventId }] of seen.entries())
          if (i > 0) expect(compareIds(seen[i - 1]!.lastEventId, lastEventId)).toBeLessThan(0);
        for (const place of others) {
          const { lastEventId } = seen[place % seen.length]!;
          const rest: SseMessage[] = [];
          await read(await again(lastEventId), Infinity, rest);
          expect(rest).toEqual(
            seen.filter((event) => compareIds(event.lastEventId, lastEventId) > 0),
          );
        }
      }),
      { numRuns: 1000 },
    );
  },
);

const isFinal = ({ data }: SseMessage): boolean =>
  /"statusUpdate":.*"state":"TASK_STATE_(COMPLETED|FAILED|CANCELED|REJECTED)"/.test(data);
