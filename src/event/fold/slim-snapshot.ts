import type { Answer } from '../../ask.ts';
import type { Artifact, Part, Snapshot, Turn } from '../types.ts';
import { copySnapshot } from './copy-snapshot.ts';

/**
 * Returns a snapshot without long members, which the fold can still continue: it has the state, the
 * ids of turns, calls and artifacts, the open questions, and the first `keepChars` characters of
 * the run's text.
 */
export function slimSnapshot(snapshot: Snapshot, keepChars: number): Snapshot {
  const slim = copySnapshot(snapshot, snapshot.artifacts.map(slimArtifact));
  slim.text = beginning(snapshot.text, keepChars);
  slim.turns = snapshot.turns.map(slimTurn);
  slim.unserved = snapshot.unserved.map(slimTurn);
  if (snapshot.current) slim.current = slimTurn(snapshot.current);
  slim.calls = snapshot.calls.map((call) => ({ ...call, args: null }));
  slim.answers = snapshot.answers.map(slimAnswer);
  if (snapshot.said) slim.said = [];
  return slim;
}

const EMPTY_PARTS: readonly Part[] = [{ text: '' }];

// An empty part stays in place of the parts: a turn with parts starts a run, one without does not.
export const slimTurn = ({ agent, task, context, messageId, parts, answers }: Turn): Turn => ({
  agent,
  task,
  context,
  messageId,
  parts: parts.length > 0 ? EMPTY_PARTS : [],
  ...(answers && { answers: answers.map(slimAnswer) }),
});

const slimAnswer = ({ id, action }: Answer): Answer => ({ id, action });

const slimArtifact = ({ artifactId }: Artifact): Artifact => ({ artifactId, parts: [] });

/**
 * The beginning of a text as a copy: V8 slices share memory, so a slice would keep all of it alive.
 */
export const beginning = (text: string, chars: number): string =>
  text.length <= chars ? text : (JSON.parse(JSON.stringify(text.slice(0, chars))) as string);
