import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import { unsupported } from '../../errors.ts';
import { onAbort } from '../../stream/abort.ts';
import { EPOCH, VirtualTimer, type World } from './world.ts';

let world: World | undefined;

/** The world in which code runs now. */
function here(): World {
  if (!world) throw new Error('code of an earlier run is still at work');
  return world;
}

/** From now on time and chance come from this world. */
export function enter(next: World | undefined): void {
  world = next;
}

/** Marks the timers of `AbortSignal.timeout`, which cannot be cleared. */
export const SIGNAL_TIMER = 'timer of a signal';

type Callback = (...args: unknown[]) => void;

const timeout = (run: Callback, ms = 1, ...args: unknown[]): VirtualTimer =>
  here().timer(() => run(...args), delay(ms), false, 'timer');
const interval = (run: Callback, ms = 1, ...args: unknown[]): VirtualTimer =>
  here().timer(() => run(...args), delay(ms), true, 'interval');
const immediate = (run: Callback, ...args: unknown[]): VirtualTimer =>
  here().timer(() => run(...args), 0, false, 'immediate');
const clear = (timer: unknown): void => {
  if (timer instanceof VirtualTimer) timer[Symbol.dispose]();
};

// As in Node: whole milliseconds, and 1 for what is not a delay of a timer.
const delay = (ms: number): number => (ms >= 1 && ms <= 0x7fffffff ? Math.trunc(ms) : 1);

const steadyMs = (): number => here().now - here().current.bornAt;
const wallMs = (): number => EPOCH + Math.floor(here().now) + here().current.skewMs;

const sleep = (ms?: number, value?: unknown, options: { signal?: AbortSignal } = {}): unknown =>
  new Promise((resolve, reject) => {
    const { signal } = options;
    if (signal?.aborted) return reject(abortError(signal));
    const timer = timeout(() => {
      unlisten();
      resolve(value);
    }, ms);
    const unlisten = onAbort(signal, () => {
      clear(timer);
      reject(abortError(signal as AbortSignal));
    });
  });

const abortError = ({ reason }: AbortSignal): Error =>
  Object.assign(new Error('The operation was aborted', { cause: reason }), {
    name: 'AbortError',
    code: 'ABORT_ERR',
  });

function timeoutSignal(ms: number): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => controller.abort(new DOMException('timed out', 'TimeoutError'));
  timeout(abort, ms).where = SIGNAL_TIMER;
  return controller.signal;
}

const RealDate = Date;

/** A date that reads the clock of the current machine. */
class VirtualDate extends RealDate {
  constructor(...args: unknown[]) {
    if (args.length === 0) super(wallMs());
    else super(...(args as [number]));
  }

  static override now(): number {
    return wallMs();
  }

  // A date that was made before the clocks were replaced is a date, too.
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof RealDate;
  }
}

/** What `replaceGlobals` replaces beside time and chance. */
export interface ReplaceOptions {
  /** Whether `fetch` is refused: no simulated time would wait for it. */
  readonly refusesFetch?: boolean;
}

/** Replaces every source of time and chance of this process. Returns what restores them. */
export function replaceGlobals({ refusesFetch = false }: ReplaceOptions = {}): () => void {
  const restore: (() => void)[] = [];
  const replace = (target: object, members: Readonly<Record<string, unknown>>): void => {
    for (const [name, value] of Object.entries(members)) {
      const before = Object.getOwnPropertyDescriptor(target, name);
      Object.defineProperty(target, name, { configurable: true, writable: true, value });
      restore.push(() => {
        if (before) Object.defineProperty(target, name, before);
        else Reflect.deleteProperty(target, name);
      });
    }
  };
  const functions = {
    setTimeout: timeout,
    setInterval: interval,
    setImmediate: immediate,
    clearTimeout: clear,
    clearInterval: clear,
    clearImmediate: clear,
  };
  const immediately = (value?: unknown): unknown =>
    new Promise((resolve) => immediate(() => resolve(value)));
  const uuid = (): string => here().uuid();
  const bytes = (size: number): Buffer => {
    const stream = here().random('bytes');
    return Buffer.from(Array.from({ length: size }, () => stream.int(0, 255)));
  };
  const random = (): number => here().random(`chance of ${here().current.name}`).next();
  replace(globalThis, { ...functions, Date: VirtualDate });
  if (refusesFetch) replace(globalThis, { fetch: refuseFetch });
  replace(timers, functions);
  replace(timersPromises, { setTimeout: sleep, setImmediate: immediately });
  replace(process.hrtime, { bigint: () => BigInt(Math.floor(here().now * 1e6)) });
  replace(performance, { now: steadyMs });
  replace(Math, { random });
  replace(AbortSignal, { timeout: timeoutSignal });
  replace(crypto, { randomUUID: uuid, randomBytes: bytes });
  replace(globalThis.crypto, { randomUUID: uuid });
  syncBuiltinESMExports();
  return () => {
    for (const undo of restore.toReversed()) undo();
    syncBuiltinESMExports();
  };
}

const refuseFetch = (): Promise<never> =>
  Promise.reject(
    unsupported('cannot fetch: simulated time does not wait for a network; use a fake in memory'),
  );
