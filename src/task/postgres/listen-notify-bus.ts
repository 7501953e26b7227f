import { disposeOnce } from '../../stream/dispose-once.ts';
import { onAbort, sleep } from '../../stream/index.ts';
import type { WakeupBus, BusListener } from './wakeup-bus.ts';
import type { PgClient } from './connections.ts';

export interface PgListenOptions {
  /** A connection of its own, direct or in session mode: a pooler in between loses notifications. */
  readonly connect: () => Promise<PgClient>;
  readonly channel: string;
  /** How often the connection is asked whether it still stands. */
  readonly checkMs: number;
}

const MAX_PAUSE_MS = 5000;

/**
 * PostgreSQL's own LISTEN and NOTIFY. The log notifies in the statement that commits, so `publish`
 * has nothing to do.
 */
export function postgresBus({ connect, channel, checkMs }: PgListenOptions): WakeupBus {
  const closed = new AbortController();
  let running: Promise<void> | undefined;

  // Resolves when the connection is gone, whether it said so or only does not answer any more.
  const listen = async (client: PgClient, listener: BusListener): Promise<void> => {
    const gone = new AbortController();
    const { signal } = gone;
    const end = (): void => gone.abort();
    client.on('error', end);
    client.on('end', end);
    client.on('notification', (what) => {
      const { payload = '' } = what as { readonly payload?: string };
      if (!signal.aborted) listener.message(payload);
    });
    const unlisten = onAbort(closed.signal, end);
    const over = new Promise<void>((resolve) => onAbort(signal, () => resolve()));
    const ask = async (text: string): Promise<void> => {
      const late = setTimeout(end, checkMs);
      await Promise.race([client.query({ text }), over]).finally(() => clearTimeout(late));
    };
    try {
      await ask(`listen ${channel}`);
      listener.gap();
      while (!signal.aborted) {
        await sleep(checkMs, signal);
        await ask('select 1');
      }
    } catch {
      // The next connection begins with a gap, which says all there is to say.
    } finally {
      unlisten();
      gone.abort();
      client.release(true);
    }
  };

  const run = async (listener: BusListener): Promise<void> => {
    for (let tries = 0; !closed.signal.aborted; tries++) {
      // Connecting is tried again after a pause; until then the log polls.
      const client = await connect().catch(() => undefined);
      if (client) {
        tries = 0;
        await listen(client, listener);
      }
      const pauseMs = Math.min(50 * 2 ** tries, MAX_PAUSE_MS) * (0.5 + Math.random() / 2);
      // An abort ends the wait; the loop looks at the signal.
      await sleep(pauseMs, closed.signal).catch(() => {});
    }
  };

  return {
    publish() {},
    subscribe(listener) {
      running ??= run(listener);
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      closed.abort();
      await running;
    }),
  };
}
