import { expect, test } from 'vitest';
import { startModelServer } from '../../support/model-server.ts';
import type { SceneTool } from './harness.ts';
import { add, ENDLESS, only, type Stage, TEXT } from './stage.ts';
import { slowness } from '../../support/busy.ts';

/** A cancel, and a reader that stops: the requests to the provider and the tools end. */
export function stopping(stage: Stage): void {
  test('cancel in the middle of text: no further text, and the provider request ends', async () => {
    const stopMs = await fastest(async (started) => {
      await using model = await startModelServer([ENDLESS]);
      const { events, end } = await stage.playOn(model, {
        each: (event, abort) => {
          if (event.type !== 'text.delta') return;
          started(model.calls[0]?.closed);
          abort();
        },
      });
      expect(end).toMatchObject({ outcome: 'canceled' });
      expect(only(events, 'text.delta')).toHaveLength(1);
      expect(await model.calls[0]?.closed).toBe('dropped');
    });
    expect(stopMs).toBeLessThan(await closeLimitMs());
  });

  test('the consumer stops reading: the provider request ends as well', async () => {
    const stopMs = await fastest(async (started) => {
      await using model = await startModelServer([ENDLESS]);
      await stage.playOn(model, {
        each: (event) => {
          if (event.type !== 'text.delta') return undefined;
          started(model.calls[0]?.closed);
          return 'leave';
        },
      });
      expect(await model.calls[0]?.closed).toBe('dropped');
    });
    expect(stopMs).toBeLessThan(await closeLimitMs());
  });

  test('cancel during a tool: its signal aborts, its call is closed, no model is called', async () => {
    let heard: unknown;
    let running = (): void => {};
    const waits: SceneTool = {
      ...add,
      run: (_args, signal) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => {
            heard = true;
            reject(new Error('stopped'));
          });
          running();
        }),
    };
    const { events, end, model } = await stage.play(
      [{ tools: [stage.call('add', { a: 1 })] }, { text: TEXT }],
      {
        tools: [waits],
        each: (event, abort) => {
          if (event.type === 'tool.started' || event.type === 'tool.called') running = abort;
        },
      },
    );
    expect(end).toMatchObject({ outcome: 'canceled' });
    expect(only(events, 'tool.failed')).toMatchObject([{ name: stage.toolName('add') }]);
    expect(heard).toBe(true);
    expect(model.calls).toHaveLength(1);
  });

  test('a tool that ignores its signal is abandoned after the grace period', async () => {
    const { events, end } = await stage.play(
      [{ tools: [stage.call('add', { a: 1 })] }, { text: TEXT }],
      {
        tools: [{ ...add, run: () => new Promise(() => {}) }],
        each: (event, abort) => {
          if (event.type !== 'tool.called') return;
          abort();
        },
      },
    );
    expect(end).toMatchObject({ outcome: 'canceled' });
    expect(only(events, 'tool.failed')).toHaveLength(1);
  });
}

/** 100 ms on a quiet machine. */
export const closeLimitMs = async (): Promise<number> => 100 * (await slowness());

/**
 * The least time, of at most three tries, from `started` until the promise given to it settles:
 * one try on a loaded machine says more about the machine than about us.
 */
export async function fastest(
  attempt: (started: (closed: Promise<unknown> | undefined) => void) => Promise<void>,
): Promise<number> {
  let least = Infinity;
  for (let tries = 0; tries < 3 && least >= 100; tries++) {
    let closedMs: Promise<number> | undefined;
    await attempt((closed) => {
      const at = performance.now();
      closedMs ??= Promise.resolve(closed).then(() => performance.now() - at);
    });
    least = Math.min(least, (await closedMs) ?? Infinity);
  }
  return least;
}
