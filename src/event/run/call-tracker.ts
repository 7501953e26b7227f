import type { InputRequest } from '../../ask.ts';
import type { ErrorCode } from '../../errors.ts';
import { belongsTo } from '../fold/entry-rules.ts';
import { failOpenCalls } from '../fold/recover-run.ts';
import type { AgentEvent, OpenCall } from '../types.ts';

type ToolEvent = Extract<AgentEvent, { readonly callId: string; readonly type: `tool.${string}` }>;

interface TrackedCall {
  readonly callId: string;
  readonly name: string;
  readonly path?: readonly string[];
  readonly partial: boolean;
}

/**
 * Keeps law 4: every call that starts closes exactly once. A repeated event is dropped. A
 * completion without a call opens its call first. An id that is used again after its call has
 * closed names a new call, which gets its own id (`id#2`).
 */
export class CallTracker {
  /** Open calls, by the id that the agent uses. */
  readonly #open = new Map<string, TrackedCall>();
  readonly #used = new Map<string, number>();
  readonly #warn: (message: string) => void;

  constructor(inherited: readonly OpenCall[], warn: (message: string) => void) {
    this.#warn = warn;
    for (const { callId, name, partial = false } of inherited) {
      this.#used.set(callId, 1);
      this.#open.set(callId, { callId, name, partial });
    }
  }

  /** Returns the id that a call has in the log. */
  idOf(given: string): string {
    return this.#open.get(given)?.callId ?? given;
  }

  /**
   * Whether the question is of a call whose arguments are incomplete, so its tool was not called.
   */
  isUnmade(request: InputRequest): boolean {
    for (const { callId, partial } of this.#open.values())
      if (partial && belongsTo(request, callId)) return true;
    return false;
  }

  take(event: ToolEvent): AgentEvent[] {
    const open = this.#open.get(event.callId);
    switch (event.type) {
      case 'tool.started':
        return open ? [] : [{ ...event, callId: this.#begin(event, true).callId }];
      case 'tool.called':
        if (open && !open.partial) return [];
        if (!open) return [{ ...event, callId: this.#begin(event, false).callId }];
        this.#open.set(event.callId, { ...open, partial: false });
        return [{ ...event, callId: open.callId }];
      case 'tool.args':
        return open?.partial ? [{ ...event, callId: open.callId }] : this.#stray(event);
      case 'tool.progress':
        return open ? [{ ...event, callId: open.callId }] : this.#stray(event);
      case 'tool.completed':
      case 'tool.failed':
        return this.#close(event, open);
    }
  }

  /**
   * Fails every open call. With `keep`, calls whose tool was called stay open while the task waits.
   */
  closeAll(code: ErrorCode, keep = false): AgentEvent[] {
    const closing = [...this.#open].filter(([, call]) => call.partial || !keep);
    return closing.flatMap(([given, call]) => {
      this.#open.delete(given);
      return failOpenCalls([call], code).map((event) =>
        call.path ? { ...event, path: call.path } : event,
      );
    });
  }

  #begin(
    { callId: given, name, path }: ToolEvent & { name: string },
    partial: boolean,
  ): TrackedCall {
    const callId = this.#unusedId(given);
    const call: TrackedCall = { callId, name, partial, ...(path && { path }) };
    this.#open.set(given, call);
    return call;
  }

  // Counts the uses of each id, so that n uses of one id cost n steps and not n².
  #unusedId(wanted: string): string {
    for (let id = wanted; ;) {
      const times = this.#used.get(wanted) ?? 0;
      this.#used.set(wanted, times + 1);
      if (times > 0) id = `${wanted}#${times + 1}`;
      if (id === wanted || !this.#used.has(id)) {
        if (id !== wanted) this.#used.set(id, 1);
        return id;
      }
    }
  }

  #close(
    event: Extract<ToolEvent, { type: 'tool.completed' | 'tool.failed' }>,
    open: TrackedCall | undefined,
  ): AgentEvent[] {
    if (!open && this.#used.has(event.callId)) return [];
    const { callId, name } = open ?? this.#begin(event, false);
    this.#open.delete(event.callId);
    const closing: AgentEvent = { ...event, callId, name };
    if (open) return [closing];
    const { at, path } = event;
    return [
      {
        type: 'tool.called',
        callId,
        name,
        args: null,
        ...(at !== undefined && { at }),
        ...(path && { path }),
      },
      closing,
    ];
  }

  #stray({ type, callId }: ToolEvent): AgentEvent[] {
    this.#warn(
      `dropped ${type} of call "${callId}": ${this.#open.has(callId) ? 'its arguments are complete' : 'it is not open'}`,
    );
    return [];
  }
}
