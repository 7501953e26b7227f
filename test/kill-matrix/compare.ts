import { checkLaws } from '../../src/event/index.ts';
import type { Entry } from '../../src/event/types.ts';
import { asObject } from '../../src/json.ts';
import { textOf } from '../task/replica-world.ts';

/** A run that has ended: its log, and what the world has seen of it. */
export interface EndedRun {
  readonly entries: readonly Entry[];
  /** The requests to the model, in order, without what differs between two unbroken runs. */
  readonly bodies: readonly string[];
  /** The ids of the calls that had an effect, in order. */
  readonly effects: readonly string[];
}

const isCall = ({ type }: Entry): boolean =>
  type === 'tool.called' || type === 'tool.completed' || type === 'tool.failed';

/**
 * What readers were shown: calls, artifacts, and the text between them with deltas joined. The ends
 * of parallel calls may come in any order.
 */
export function shown(entries: readonly Entry[]): readonly string[] {
  const all: string[] = [];
  let text = '';
  for (const entry of entries) {
    if (entry.type === 'text.delta' || entry.type === 'reasoning.delta') text += entry.delta;
    else if (isCall(entry) || entry.type === 'artifact') {
      const { seq: _seq, at: _at, ...rest } = entry;
      // A blob gets a new id each time that it is stored, and so does an artifact without one.
      const line = JSON.stringify({ ...rest, ms: undefined })
        .replaceAll(BLOB, '/blobs/<id>')
        .replace(ARTIFACT_ID, '"artifactId":"<id>"');
      all.push(text, line);
      text = '';
    }
  }
  return [...all, text].filter((line) => line !== '').toSorted();
}

const ARTIFACT_ID = /"artifactId":"[0-9a-f]{8}-[0-9a-f-]{27}"/;
const BLOB = /\/blobs\/[\w.-]+/g;

/** Text that was replaced is shown in one piece, so that only the calls can be compared. */
const isReplaced = (entry: Entry): boolean => entry.type === 'run.started' && !!entry.discard;

const count = (entries: readonly Entry[], type: Entry['type']): number =>
  entries.filter((entry) => entry.type === type).length;

const waits = (entry: Entry): boolean =>
  entry.type === 'run.finished' && entry.outcome === 'input-required';

export const repeated = (all: readonly string[]): readonly string[] =>
  all.filter((each, index) => all.indexOf(each) < index);

/** The effects of each call: it is named by the id of the call, or by one of its arguments. */
function effectsOfCalls(entries: readonly Entry[]): ReadonlyMap<string, readonly unknown[]> {
  const effects = new Map<string, readonly unknown[]>();
  for (const entry of entries)
    if (entry.type === 'tool.called')
      effects.set(entry.callId, [entry.callId, ...Object.values(asObject(entry.args))]);
  return effects;
}

function finishedEffects(entries: readonly Entry[]): readonly unknown[] {
  const effects = effectsOfCalls(entries);
  return entries.flatMap((entry) =>
    entry.type === 'tool.completed' || entry.type === 'tool.failed'
      ? (effects.get(entry.callId) ?? [])
      : [],
  );
}

/** The number of the model message that has caused an effect. */
function messageOf(effect: string, entries: readonly Entry[]): number {
  const [callId] =
    [...effectsOfCalls(entries)].find(([, effects]) => effects.includes(effect)) ?? [];
  const at = entries.findIndex((entry) => entry.type === 'tool.called' && entry.callId === callId);
  return entries.slice(0, at).filter(({ type }) => type === 'step.started').length;
}

/**
 * Compares a run that was interrupted after the entry `at` with an unbroken one. Returns a sentence
 * for each difference.
 *
 * - The log has every number once, is valid, and ends with one final event and the same text.
 * - Readers were shown the same, and the model got the same requests.
 * - At most the model call under way, and the tool calls of one message, were repeated: none that
 *   had ended in the log.
 *
 * On a busy machine a process may lose its lease before it is killed, so each run that did not end
 * counts as one interruption.
 */
export function differences(ended: EndedRun, whole: EndedRun, at: number): readonly string[] {
  const { entries, bodies, effects } = ended;
  const found: string[] = [];
  const check = (holds: boolean, what: string): void => void (holds || found.push(what));
  const same = (what: string, is: unknown, expected: unknown): void => {
    const [a, b] = [JSON.stringify(is), JSON.stringify(expected)];
    if (a !== b) found.push(`${what} differ: ${excerpt(a, b)}`);
  };
  const sequence = entries.map(({ seq }) => seq);
  same(
    'the numbers of entries',
    sequence,
    sequence.map((_, index) => index + 1),
  );
  for (const finding of checkLaws(entries)) found.push(JSON.stringify(finding));
  const end = entries.at(-1);
  const ends = entries.filter((entry) => entry.type === 'run.finished' && !waits(entry));
  check(ends.length === 1, `it has ${ends.length} final events`);
  check(end?.type === 'run.finished', 'its last entry is not its end');
  if (end?.type === 'run.finished') {
    check(end.outcome === 'completed', `it ended as ${JSON.stringify(end)}`);
    const last = whole.entries.at(-1);
    if (last?.type === 'run.finished') same('the final texts', end.text, last.text);
  }
  same('the texts', textOf(entries), textOf(whole.entries));
  const compared = entries.some(isReplaced) ? isCall : (): boolean => true;
  same(
    'what was shown',
    shown(withoutReplacedCalls(entries).filter(compared)),
    shown(whole.entries.filter(compared)),
  );
  same('the requests', [...new Set(bodies)], [...new Set(whole.bodies)]);
  const interrupted = Math.max(1, count(entries, 'run.started') - count(entries, 'run.finished'));
  check(
    repeated(bodies).length <= interrupted,
    `${repeated(bodies).length} requests were repeated`,
  );
  same('the effects', [...new Set(effects)].toSorted(), [...new Set(whole.effects)].toSorted());
  const before = finishedEffects(entries.slice(0, at));
  const again = repeated(effects).filter((id) => before.includes(id));
  check(again.length === 0, `calls that had ended were made again: ${again.join(', ')}`);
  const messages = new Set(
    repeated(effects).map((effect) =>
      effect.startsWith('call_') ? effect.slice(0, 6) : messageOf(effect, whole.entries),
    ),
  );
  check(messages.size <= interrupted, `effects were repeated: ${repeated(effects).join(', ')}`);
  return found;
}

/**
 * The entries without calls whose arguments were arriving when the run was interrupted: they have
 * visibly failed, and the model has made them again.
 */
function withoutReplacedCalls(entries: readonly Entry[]): readonly Entry[] {
  return entries.filter(
    (entry, index) =>
      entry.type !== 'tool.failed' ||
      entry.error.code !== 'interrupted' ||
      !entries
        .slice(index + 1)
        .some((later) => later.type === 'tool.called' && later.callId === entry.callId),
  );
}

function excerpt(a: string, b: string): string {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  const from = Math.max(0, at - 60);
  return `…${a.slice(from, at + 200)} instead of …${b.slice(from, at + 200)}`;
}
