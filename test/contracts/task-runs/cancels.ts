import { expect } from 'vitest';
import type { Agent } from '../../../src/event/types.ts';
import { sleep } from '../../../src/stream/index.ts';
import { say, shape, turn, until, words } from '../../task/replica-world.ts';
import { verifies } from '../../verifies.ts';
import { type Place, whole } from './fixture.ts';
import { onAbort } from '../../../src/stream/abort.ts';

/** A cancel from anywhere, at any moment, and an agent that does not listen. */
export function canceledRuns({ replica, start }: Place): void {
  for (const deaf of [false, true])
    for (const notify of [true, false])
      verifies(
        ['S178', 'S183', 'S190'],
        `a cancel on another replica stops the run (ignores its signal: ${deaf}, notify: ${notify})`,
        async () => {
          const [a, b] = [replica({ notify, heartbeatMs: 50 }), replica({ notify })];
          const stopped: unknown[] = [];
          const talk = words(100_000, 2, { deaf });
          const agent: Agent = (given, ctx) => {
            ctx.signal.addEventListener('abort', () => stopped.push(ctx.signal.reason));
            return talk(given, ctx);
          };
          start(b, {});
          await start(a, { w: agent }).submit(turn('w', 't'));
          await until(b.log, 't', (snapshot) => snapshot.text.length > 20);
          await b.log.requestCancel('t');
          const entries = await whole(b.log, 't');
          const canceled = entries.findIndex((entry) => entry.type === 'cancel.requested');
          expect(shape(entries.slice(canceled))).toEqual([
            'cancel.requested',
            'run.finished:canceled',
          ]);
          expect(entries.at(-1)).toMatchObject({ text: 'Response stopped.' });
          // By its own replica, which got the note, not by one that took over the task.
          expect(stopped).toMatchObject([{ code: 'canceled' }]);
          expect(await b.log.requestCancel('t')).toMatchObject({ state: 'canceled' });
        },
      );

  for (const at of [0, 1, 2, 3])
    verifies(
      'S179',
      `a cancel takes effect at the await where the agent is, and is logged (await ${at})`,
      async () => {
        const a = replica();
        const passed: number[] = [];
        const thrown: unknown[] = [];
        const logged: string[] = [];
        const agent: Agent = async function* (_turn, ctx) {
          for (let step = 0; step < 5; step++) {
            yield { type: 'status', message: `step ${step}` };
            // Waits for ever at one place only; nothing but the cancel can end that.
            await sleep(step === at ? 3_600_000 : 0, ctx.signal).catch((error: unknown) => {
              thrown.push(step, error);
              throw error;
            });
            passed.push(step);
          }
        };
        const note = (message: string): void => void logged.push(message);
        const logger = { debug: note, info: note, warn: note, error: note };
        const runner = start(a, { s: agent }, { logger });
        await runner.submit(turn('s', 't'));
        for await (const entry of a.log.read('t', 0))
          if (entry.type === 'status' && entry.message === `step ${at}`) break;
        await a.log.requestCancel('t', 'that is enough');
        expect(shape(await whole(a.log, 't')).at(-1)).toBe('run.finished:canceled');
        expect(passed).toEqual(Array.from({ length: at }, (_, step) => step));
        // By the cancel itself, not by being left behind at the end of its grace.
        expect(thrown).toMatchObject([at, { code: 'canceled' }]);
        expect(String(thrown[1])).toContain('that is enough');
        expect(logged).toContain('cancel requested');
      },
    );

  verifies('S180', 'an agent that never looks up is left behind after its grace', async () => {
    const a = replica();
    let release = (): void => {};
    const stuck: Agent = async function* () {
      yield say('x');
      await new Promise<void>((resolve) => (release = resolve));
      yield say('late');
    };
    await start(a, { s: stuck }).submit(turn('s', 't'));
    await until(a.log, 't', (snapshot) => snapshot.text === 'x');
    await a.log.requestCancel('t');
    const entries = await whole(a.log, 't');
    release();
    expect(shape(entries).at(-1)).toBe('run.finished:canceled');
  });

  verifies('S178', 'a cancel before the first word is the end, and no run starts', async () => {
    const a = replica();
    const silent: Agent = async function* (_turn, ctx) {
      await new Promise((resolve) => onAbort(ctx.signal, resolve));
      yield say('never written');
    };
    await start(a, { s: silent }).submit(turn('s', 't'));
    await a.log.requestCancel('t');
    expect(shape(await whole(a.log, 't'))).toEqual([
      'turn.submitted',
      'cancel.requested',
      'run.finished:canceled',
    ]);
  });
}
