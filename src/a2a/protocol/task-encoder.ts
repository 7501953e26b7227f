import type { Answer, InputRequest } from '../../ask.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import type { Artifact, Part, SaidMessage, Snapshot, TaskState, Turn } from '../../event/types.ts';
import { decisionCode, wantsCode } from '../../task/match-answers.ts';
import { nameId } from '../../task/name-id.ts';
import type { A2AArtifact, A2AMessage, A2APart, A2AState, A2AStatus, A2ATask } from './model.ts';

export const STATES: Readonly<Record<TaskState, A2AState>> = {
  submitted: 'TASK_STATE_SUBMITTED',
  working: 'TASK_STATE_WORKING',
  'input-required': 'TASK_STATE_INPUT_REQUIRED',
  'auth-required': 'TASK_STATE_AUTH_REQUIRED',
  completed: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
  canceled: 'TASK_STATE_CANCELED',
  rejected: 'TASK_STATE_REJECTED',
};

/**
 * The longest run text, in characters, that a message repeats: in the history, and in the last
 * status if `text.pattern` is set. A longer text is in its artifact only.
 */
export const STATUS_TEXT_CHARS = 16_384;

let lastAt = Number.NaN;
let lastTimestamp = '';

/**
 * The ISO 8601 form of a time. Caches the last one: the events of one commit have the same time.
 */
export function timestamp(at: number): string {
  if (at !== lastAt) {
    lastTimestamp = new Date(at).toISOString();
    lastAt = at;
  }
  return lastTimestamp;
}

export function encodePart(part: Part): A2APart {
  if ('bytes' in part) {
    const { bytes, ...rest } = part;
    return { raw: Buffer.from(bytes).toString('base64'), ...rest };
  }
  return part;
}

export const encodeArtifact = ({ artifactId, name, parts, metadata }: Artifact): A2AArtifact => ({
  artifactId,
  ...(name !== undefined && { name }),
  parts: parts.map(encodePart),
  ...(metadata && { metadata }),
});

export const encodeUserMessage = (turn: Turn): A2AMessage => ({
  messageId: turn.messageId,
  contextId: turn.context,
  taskId: turn.task,
  role: 'ROLE_USER',
  parts: [...turn.parts.map(encodePart), ...encodeAnswers(turn.answers ?? [])],
  ...(turn.metadata && { metadata: turn.metadata }),
});

/**
 * Answers as parts. A single accepted answer that is a string is shown as the text that was sent.
 */
function encodeAnswers(answers: readonly Answer[]): readonly A2APart[] {
  const [only, another] = answers;
  if (!only) return [];
  const { action, content } = only;
  const isText = !another && action === 'accept' && typeof content === 'string';
  return [isText ? { text: content } : { data: { answers } }];
}

export const agentMessage = (
  { task, context }: { readonly task: string; readonly context: string },
  messageId: string,
  parts: readonly A2APart[],
): A2AMessage => ({
  messageId,
  contextId: context,
  taskId: task,
  role: 'ROLE_AGENT',
  parts,
});

/** The id of the artifact that carries the text of the run that serves `turn`. */
export const responseId = (turn: Pick<Turn, 'task' | 'messageId'> | undefined): string =>
  nameId(`response/${turn?.task ?? ''}/${turn?.messageId ?? ''}`);

/** The artifact for a chunk of that text, or for all of it. */
export const responseArtifact = (
  artifactId: string,
  text: string,
  name: string = 'response',
): A2AArtifact => ({
  artifactId,
  name,
  parts: [{ text, mediaType: 'text/markdown' }],
});

export interface EncodeTaskOptions {
  /** The most messages of the history: all if undefined, none if 0, as in the requests. */
  readonly historyLength?: number | undefined;
  readonly artifacts?: boolean;
  /** How clients see the text of a run. */
  readonly text?: TextForm | undefined;
}

/** The members of `TextOptions` that change an encoded task. */
export interface TextForm {
  /** The name of the artifact that carries the text. */
  readonly artifact?: string;
  /** With either value, the last status repeats the text. */
  readonly pattern?: 'artifact' | 'status';
}

/** Encodes a snapshot as an A2A task. */
export function encodeTask(
  snapshot: Snapshot,
  { historyLength, artifacts = true, text }: EncodeTaskOptions = {},
): A2ATask {
  const status = encodeStatus(snapshot, text);
  const all = artifacts
    ? [...responses(snapshot, text?.artifact), ...snapshot.artifacts.map(encodeArtifact)]
    : [];
  const messages = historyLength === 0 ? [] : historyOf(snapshot, status);
  const history = historyLength === undefined ? messages : messages.slice(-historyLength);
  return {
    id: snapshot.task,
    contextId: snapshot.context,
    status,
    ...(all.length > 0 && { artifacts: all }),
    ...(history.length > 0 && { history }),
  };
}

/** The text of each run, as the artifact that the run's stream sent. */
function responses(
  { task, said = [], current, text }: Snapshot,
  name: string | undefined,
): A2AArtifact[] {
  const earlier = said.flatMap(({ kind, id, text: runText }) =>
    kind === 'response'
      ? [responseArtifact(responseId({ task, messageId: id }), runText, name)]
      : [],
  );
  return text === '' ? earlier : [...earlier, responseArtifact(responseId(current), text, name)];
}

/** The messages of user and agent in order; for a final task including its last message. */
function historyOf(snapshot: Snapshot, { message }: A2AStatus): A2AMessage[] {
  const { turns, omitted = 0, said = [], state, task } = snapshot;
  const messages: A2AMessage[] = [];
  let next = 0;
  const pushAgentMessages = (submitted: number): void => {
    for (; (said[next]?.turns ?? Infinity) <= submitted; next++) {
      const { kind, id, text } = said[next] as SaidMessage;
      messages.push(agentMessage(snapshot, nameId(`${kind}/${task}/${id}/said`), [{ text }]));
    }
  };
  for (const [index, turn] of turns.entries()) {
    pushAgentMessages(index === 0 ? 0 : index + omitted);
    messages.push(encodeUserMessage(turn));
  }
  pushAgentMessages(turns.length + omitted);
  const last =
    message ?? (state === 'completed' ? statusMessage(snapshot, textParts(snapshot)) : undefined);
  if (last && isFinal(state)) messages.push(last);
  return messages;
}

/** Encodes the state of a task, with a message for a person. */
export function encodeStatus(
  snapshot: Snapshot,
  form: TextForm = {},
  parts: readonly A2APart[] = statusParts(snapshot, form),
): A2AStatus {
  const message = statusMessage(snapshot, parts);
  return {
    state: STATES[snapshot.state],
    ...(message && { message }),
    timestamp: timestamp(snapshot.updatedAt),
  };
}

const statusMessage = (snapshot: Snapshot, parts: readonly A2APart[]): A2AMessage | undefined =>
  parts.length === 0
    ? undefined
    : agentMessage(snapshot, nameId(`status/${snapshot.task}/${snapshot.seq}`), parts);

/**
 * The text of the last run as parts of a message; a text that is too long is in its artifact only.
 */
const textParts = ({ text }: Snapshot): readonly A2APart[] =>
  text === '' || text.length > STATUS_TEXT_CHARS ? [] : [{ text }];

function statusParts(snapshot: Snapshot, { pattern }: TextForm): readonly A2APart[] {
  switch (snapshot.state) {
    case 'failed':
    case 'rejected':
      return [{ text: publicText(snapshot) }];
    case 'canceled':
      return [{ text: 'Response stopped.' }];
    case 'input-required':
    case 'auth-required':
      return snapshot.pending.flatMap((request) => [
        { text: questionText(snapshot, request) },
        { data: { request } },
      ]);
    case 'completed':
      // The artifact carries the result. Clients that show artifact and status (ADK,
      // a2a-ai-provider) would show it twice.
      return pattern === undefined ? [] : textParts(snapshot);
    case 'submitted':
    case 'working':
      return [];
  }
}

/**
 * The text of a question. From the second decision of a task on it includes the code that an
 * approval as text must carry, so that a late "yes" cannot approve a different question.
 */
function questionText(snapshot: Snapshot, request: InputRequest): string {
  const { message = 'An answer is needed to go on.', kind } = request;
  if (kind === 'question' || snapshot.pending.length > 1 || !wantsCode(snapshot)) return message;
  return `${message}\n(To approve as text: approve ${decisionCode(snapshot, request)})`;
}

/** The text of a failure for clients. The text of an `internal` error never leaves the process. */
function publicText({ error, text }: Snapshot): string {
  if (!error) return text.slice(0, STATUS_TEXT_CHARS) || 'The agent failed without saying why.';
  return error.code === 'internal' ? 'The agent failed with an internal error.' : error.message;
}
