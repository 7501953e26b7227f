import { countTurns } from '../../event/fold/turns.ts';
import { omitUndefined } from '../../json.ts';
import type { Part, Snapshot, Turn } from '../../event/types.ts';

/** How much of the first message is kept: enough for a title. */
const TITLE_CHARS = 256;
/** How much text of a failed run without an error is kept: as much as a status shows. */
const REASON_CHARS = 16_384;

/**
 * Returns a task as lists show it: without text, artifacts, calls and history, which may have
 * megabytes. Open questions (`pending`) are complete; of the messages it has the start of the
 * first.
 */
export function outlineOf(snapshot: Snapshot): Snapshot {
  const { turns, pending, state, error, text, ...rest } = snapshot;
  const [first, ...later] = turns;
  // Clients of a waiting task need to know whether a question was answered before.
  const kept = pending.length > 0 ? later.map((turn) => bareTurn(turn)) : [];
  const missing = countTurns(snapshot) - 1 - kept.length;
  const outline: { -readonly [Field in keyof Snapshot]: Snapshot[Field] } = {
    ...rest,
    state,
    pending,
    turns: first ? [bareTurn(first, title(first.parts)), ...kept] : [],
    unserved: [],
    calls: [],
    answers: [],
    text: (state === 'failed' || state === 'rejected') && !error ? text.slice(0, REASON_CHARS) : '',
    artifacts: [],
  };
  if (error) outline.error = error;
  if (missing > 0) outline.omitted = missing;
  delete outline.current;
  delete outline.said;
  delete outline.answered;
  delete outline.spent;
  delete outline.delivered;
  delete outline.steps;
  delete outline.waits;
  return outline;
}

function bareTurn(turn: Turn, parts: readonly Part[] = []): Turn {
  const { agent, task, context, owner, tenant, messageId, answers } = turn;
  const actions = answers?.map(({ id, action }) => ({ id, action }));
  const kept = { agent, task, context, messageId, parts, owner, tenant, answers: actions };
  return omitUndefined<Turn>(kept);
}

function title([first]: readonly Part[]): readonly Part[] {
  if (!first) return [];
  if ('text' in first) return [{ text: first.text.slice(0, TITLE_CHARS) }];
  if (!('data' in first)) return [{ text: (first.filename ?? '').slice(0, TITLE_CHARS) }];
  const text = JSON.stringify(first.data);
  return text.length <= TITLE_CHARS
    ? [{ data: first.data }]
    : [{ text: titleOf(first.data, text) }];
}

function titleOf(data: unknown, text: string): string {
  const { title: named, name } = (data ?? {}) as {
    readonly title?: unknown;
    readonly name?: unknown;
  };
  const given = named ?? name;
  return (typeof given === 'string' ? given : text).slice(0, TITLE_CHARS);
}
