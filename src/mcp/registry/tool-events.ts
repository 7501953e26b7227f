import { DuolaneError } from '../../errors.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { Channel } from '../../stream/channel.ts';
import { type Emit, type LastEvent, MAX_TIMER_MS } from './run-tool.ts';
import type { CallOptions, ToolCall, ToolEvent } from '../types.ts';

/** Calls `end` with `timeout` at a Unix time in ms, unless the timer is cleared. */
export const abortAtDeadline = (
  deadline: number,
  name: string,
  end: (reason: DuolaneError) => void,
): NodeJS.Timeout =>
  setTimeout(
    () =>
      end(new DuolaneError('timeout', `call of tool "${name}" timed out: its deadline has passed`)),
    Math.min(Math.max(deadline - Date.now(), 0), MAX_TIMER_MS),
  );

/**
 * Turns a run into the events of its call. Throws the reason of the caller's abort or deadline.
 * Breaking out of the loop cancels the run and waits until it settles.
 */
export async function* toolEvents(
  run: (caller: Cancellation, emit: Emit) => Promise<LastEvent>,
  call: ToolCall,
  options: CallOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  const caller = new Cancellation();
  const events = new Channel<ToolEvent>({ capacity: 1 });
  // Fail the channel immediately: a handler that waits for its reader is released.
  caller.onAbort((reason) => events.fail(reason));
  const unfollow = caller.follow(options);
  const { deadline } = options;
  const abort = (reason: unknown): void => caller.abort(reason);
  const timer = deadline === undefined ? undefined : abortAtDeadline(deadline, call.name, abort);
  let over = false;
  // A failed push means that the reader has gone; the abort below ends the handler.
  const finished = run(caller, (event) => events.push(event).catch(() => {})).then(
    (last) => {
      over = true;
      if (!events.ended) events.offer(last);
      events.close();
    },
    (error: unknown) => {
      over = true;
      events.fail(error);
    },
  );
  try {
    yield* events;
  } finally {
    unfollow();
    clearTimeout(timer);
    if (!over) {
      caller.abort(
        new DuolaneError('canceled', `the reader cancelled the call of tool "${call.name}"`),
      );
      await finished;
    }
  }
}
