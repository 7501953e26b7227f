import { createHash } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import type { StepContext } from '../../event/step-types.ts';
import type { AgentContext, AgentEvent } from '../../event/types.ts';

/** The result of a durable call, and whether this run has made the call. */
export interface DurableResult<T> {
  readonly value: T;
  readonly isNew: boolean;
}

/** A result in the log. One that is too large for an entry is in the storage of the task. */
type StoredResult<T> = { readonly value: T } | { readonly storedAt: string };

type DurableContext = Pick<AgentContext, 'step' | 'storage' | 'logger'>;

const UNREAD = new DuolaneError('canceled', 'the call is over: its events are no longer read');
const UNSTORED = new DuolaneError('canceled', 'the result need not be stored');

/**
 * Makes a call that yields events, such as that of a model, as a durable step: its result is in the
 * log before this returns it, and a further call of the agent gets it from there, without events.
 * The events are pulled by the caller and not kept. A failure is not stored, so that `withRetry`
 * may repeat the call.
 *
 * With `isStored`, a result may be left out of the log: that of the last call of a run, which the
 * end of the run makes durable.
 */
export async function* durableCall<T>(
  ctx: DurableContext,
  id: string,
  make: () => AsyncGenerator<AgentEvent, T, undefined>,
  isStored: (value: T) => boolean = () => true,
): AsyncGenerator<AgentEvent, DurableResult<T>, undefined> {
  const call = beginCall<T>(ctx, id);
  const known = await call.known;
  if (known) return { value: await known(), isNew: false };
  try {
    const value = yield* make();
    if (isStored(value)) return { value: await call.store(value), isNew: true };
    await call.abandon(UNSTORED);
    return { value, isNew: true };
  } catch (error) {
    await call.abandon(error);
    throw error;
  } finally {
    // The caller may have left its loop. It does nothing if the result is stored.
    await call.abandon(UNREAD);
  }
}

/**
 * Asks a person and stores the answers as a durable step. The question is asked outside the step,
 * so that the run may be suspended meanwhile. A further call of the agent gets the answers from the
 * step also after the call that they belong to has closed, when the task no longer has them.
 */
export async function durableAnswers<T>(
  ctx: DurableContext,
  id: string,
  ask: () => Promise<T>,
): Promise<T> {
  const before = beginCall<T>(ctx, id);
  const known = await before.known;
  if (known) return known();
  await before.abandon(UNSTORED);
  const answers = await ask();
  const call = beginCall<T>(ctx, id);
  await call.known;
  return call.store(answers);
}

/** A durable call that has begun. */
export interface BegunCall<T> {
  /** Resolves with a function that gives the stored result; with undefined without one. */
  readonly known: Promise<(() => Promise<T>) | undefined>;
  /** Stores the result; resolves with it when it is durable. */
  store(value: T): Promise<T>;
  /** Ends the call without a result. Does nothing after `store`. */
  abandon(reason: unknown): Promise<void>;
}

/** Begins a durable call whose caller makes it, as in a stream that others read. */
export function beginCall<T>(ctx: DurableContext, id: string): BegunCall<T> {
  let settle = (_value: T): void => {};
  let fail = (_reason: unknown): void => {};
  let stepKey = '';
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const options = { storeFailure: false } as const;
  const run = ({ key }: StepContext): Promise<StoredResult<T>> => {
    stepKey = key;
    begin();
    return new Promise((resolve, reject) => {
      settle = (value) => resolve({ value });
      fail = reject;
    });
  };
  const step: Promise<StoredResult<T>> = ctx.step(id, run, options);
  const load = (): Promise<T> => step.then((stored) => loadResult(stored, ctx));
  return {
    known: new Promise((resolve, reject) => {
      step.then(() => resolve(load), reject);
      begun.then(() => resolve(undefined), reject);
    }),
    store: async (value) => {
      settle(value);
      try {
        return await load();
      } catch (error) {
        if (DuolaneError.from(error).code !== 'too_large') throw error;
      }
      const stored = await storeLarge(ctx, stepKey, value);
      if (stored) await ctx.step(id, () => stored, options);
      return value;
    },
    abandon: async (reason) => {
      fail(reason);
      await step.catch(() => {}); // it fails with this reason, or the run is over
    },
  };
}

/** Keeps a result beside the log. Returns undefined if it is too large for that, too. */
async function storeLarge(
  { storage, logger }: DurableContext,
  stepKey: string,
  value: unknown,
): Promise<{ readonly storedAt: string } | undefined> {
  const storedAt = `step/${createHash('sha256').update(stepKey).digest('hex')}`;
  try {
    await storage?.set({ [storedAt]: value });
    return storage && { storedAt };
  } catch (error) {
    const failure = DuolaneError.from(error);
    if (failure.code !== 'too_large') throw failure;
    logger.warn('a result is too large to be stored; a restart makes its call again', {
      step: stepKey,
      ...failure.toJSON(),
    });
    return undefined;
  }
}

async function loadResult<T>(stored: StoredResult<T>, { storage }: DurableContext): Promise<T> {
  // JSON has no undefined, so a result that is undefined has no member.
  if (!('storedAt' in stored)) return stored.value;
  const key = stored.storedAt;
  for await (const [found, value] of storage?.list(key) ?? []) if (found === key) return value as T;
  throw new DuolaneError('not_found', `stored result "${key}" not found in the task`);
}
