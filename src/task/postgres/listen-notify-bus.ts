import { disposeOnce } from '../../stream/dispose-once.ts';
import { onAbort, sleep } from '../../stream/index.ts';
import type { WakeupBus, WakeupListener } from './wakeup-bus.ts';
import type { PgClient } from './connections.ts';

export interface PgListenOptions {
  /** Opens a connection, direct or in session mode: a pooler in between loses notifications. */
  readonly connect: () => Promise<PgClient>;
  readonly channel: string;
  /** How often the connection is checked. */
  readonly checkMs: number;
}

const MAX_PAUSE_MS = 5000;

/**
 * Creates a bus over LISTEN and NOTIFY of PostgreSQL. The statement that commits also notifies, so
 * `publish` does nothing.
 */
export function postgresBus({ connect, channel, checkMs }: PgListenOptions): WakeupBus {
  const closed = new AbortController();
  let running: Promise<void> | undefined;

  // Resolves when the connection is lost: it ended, failed or does not reply.
  const listen = async (client: PgClient, listener: WakeupListener): Promise<void> => {
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
      // The next connection begins with a gap, so nothing else need be reported.
    } finally {
      unlisten();
      gone.abort();
      client.release(true);
    }
  };

  const run = async (listener: WakeupListener): Promise<void> => {
    for (let tries = 0; !closed.signal.aborted; tries++) {
      // After a failure, connect again after a pause; until then the log polls.
      const client = await connect().catch(() => undefined);
      if (client) {
        tries = 0;
        await listen(client, listener);
      }
      const pauseMs = Math.min(50 * 2 ** tries, MAX_PAUSE_MS) * (0.5 + Math.random() / 2);
      // An abort ends the pause; the loop checks the signal.
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
