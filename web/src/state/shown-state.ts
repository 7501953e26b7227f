import type { Snapshot } from '../../../src/event/types.ts';
import { isFinal } from '../../../src/event/fold/entry-rules.ts';
import { duration } from './format-time.ts';
import type { ConnectionState } from './types.ts';

/** How a state is colored: one tone for each kind of attention that it needs. */
export type StateTone = 'active' | 'good' | 'bad' | 'warn' | 'idle' | 'unknown';

/** The one state of a task that the page shows, wherever it shows one. */
export interface ShownState {
  /** The word for tests and styles, such as `working` or `unknown`. */
  readonly key: string;
  readonly label: string;
  readonly tone: StateTone;
  /** What else is known, in a few words. */
  readonly detail?: string;
}

type Listed = Pick<Snapshot, 'state' | 'canceling' | 'running' | 'suspended'>;

const LABELS: Readonly<Record<Snapshot['state'], readonly [string, StateTone]>> = {
  submitted: ['queued', 'idle'],
  working: ['working', 'active'],
  'input-required': ['waiting for you', 'warn'],
  'auth-required': ['waiting for sign-in', 'warn'],
  completed: ['completed', 'good'],
  failed: ['failed', 'bad'],
  canceled: ['canceled', 'idle'],
  rejected: ['rejected', 'bad'],
};

/** The state of a task as the log has it. */
export function stateOf({ state, canceling, running, suspended }: Listed): ShownState {
  const [label, tone] = LABELS[state];
  if (isFinal(state)) return { key: state, label, tone };
  if (canceling) return { key: 'canceling', label: 'canceling', tone: 'warn' };
  if (suspended)
    return { key: 'sleeping', label: 'sleeping', tone: 'idle', detail: 'holds no process' };
  if (state === 'input-required' || state === 'auth-required')
    return { key: state, label, tone, ...(!running && { detail: 'holds no process' }) };
  return { key: state, label, tone };
}

const CONNECTION_TEXTS: Readonly<Partial<Record<ConnectionState, string>>> = {
  lost: 'connection lost, reconnecting',
  failed: 'the stream failed; the task may continue',
  disconnected: 'disconnected by you; the task continues',
  silent: 'the server is silent',
};

/**
 * The state of a task as this page knows it. Without a connection a state that is not final is
 * only what was last seen: the task goes on, and the page does not know how far.
 */
export function shownState(
  snapshot: Snapshot | undefined,
  connection: ConnectionState,
  silentMs: number,
): ShownState {
  if (!snapshot)
    return connection === 'lost'
      ? { key: 'reconnecting', label: 'reconnecting', tone: 'unknown' }
      : { key: 'connecting', label: 'connecting', tone: 'idle' };
  const state = stateOf(snapshot);
  const problem = CONNECTION_TEXTS[connection];
  if (problem === undefined || isFinal(snapshot.state)) return state;
  return {
    key: 'unknown',
    label: 'unknown',
    tone: 'unknown',
    detail: `last seen ${state.label} ${duration(silentMs)} ago; ${problem}`,
  };
}
