import { createHash } from 'node:crypto';
import type { Answer } from '../ask.ts';
import type { Artifact, Part, Snapshot, TaskState, Turn } from '../event/types.ts';
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

/** The result is an artifact; up to this length the last status repeats it, for clients that look only there. */
const STATUS_TEXT_CHARS = 16_384;

/** The UUID of a name: the same log gives the same ids on every replica and every replay. */
export function nameId(name: string): string {
  const hex = createHash('sha256').update(name).digest('hex');
  const variant = ((Number.parseInt(hex.slice(16, 18), 16) & 0x3f) | 0x80).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(18, 20)}-${hex.slice(20, 32)}`;
}

export const timestamp = (at: number): string => new Date(at).toISOString();

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

export const userMessage = (turn: Turn): A2AMessage => ({
  messageId: turn.messageId,
  contextId: turn.context,
  taskId: turn.task,
  role: 'ROLE_USER',
  parts: [...turn.parts.map(encodePart), ...encodeAnswers(turn.answers ?? [])],
  ...(turn.metadata && { metadata: turn.metadata }),
});

/** A plain text that answered a question is shown as what it was. */
function encodeAnswers(answers: readonly Answer[]): readonly A2APart[] {
  const [only, another] = answers;
  if (!only) return [];
  const { action, content } = only;
  const plain = !another && action === 'accept' && typeof content === 'string';
  return [plain ? { text: content } : { data: { answers } }];
}

export const agentMessage = (
  place: { readonly task: string; readonly context: string },
  messageId: string,
  parts: readonly A2APart[],
): A2AMessage => ({
  messageId,
  contextId: place.context,
  taskId: place.task,
  role: 'ROLE_AGENT',
  parts,
});

/** The id of the artifact that carries the text of the run that serves `turn`. */
export const responseId = (turn: Turn | undefined): string =>
  nameId(`response/${turn?.task ?? ''}/${turn?.messageId ?? ''}`);

/** A piece of that text, or all of it. */
export const responseArtifact = (artifactId: string, text: string): A2AArtifact => ({
  artifactId,
  name: 'response',
  parts: [{ text, mediaType: 'text/markdown' }],
});

export interface TaskView {
  /** As in the requests: undefined for all, 0 for none. */
  readonly historyLength?: number | undefined;
  readonly artifacts?: boolean;
  /** What earlier runs of the task said; the snapshot has only the last one. */
  readonly earlier?: readonly A2AArtifact[];
}

/** A task as the snapshot has it. */
export function encodeTask(
  snapshot: Snapshot,
  { historyLength, artifacts = true, earlier = [] }: TaskView = {},
): A2ATask {
  const turns = historyLength === undefined ? snapshot.turns : snapshot.turns.slice(-historyLength);
  const text =
    snapshot.text === '' ? [] : [responseArtifact(responseId(snapshot.current), snapshot.text)];
  const all = artifacts ? [...earlier, ...text, ...snapshot.artifacts.map(encodeArtifact)] : [];
  return {
    id: snapshot.task,
    contextId: snapshot.context,
    status: encodeStatus(snapshot),
    ...(all.length > 0 && { artifacts: all }),
    ...(historyLength !== 0 && turns.length > 0 && { history: turns.map(userMessage) }),
  };
}

/** Where the task stands, with what a person should read beside it. */
export function encodeStatus(
  snapshot: Snapshot,
  parts: readonly A2APart[] = statusParts(snapshot),
): A2AStatus {
  return {
    state: STATES[snapshot.state],
    ...(parts.length > 0 && {
      message: agentMessage(snapshot, nameId(`status/${snapshot.task}/${snapshot.seq}`), parts),
    }),
    timestamp: timestamp(snapshot.updatedAt),
  };
}

function statusParts(snapshot: Snapshot): readonly A2APart[] {
  switch (snapshot.state) {
    case 'failed':
    case 'rejected':
      return [{ text: publicText(snapshot) }];
    case 'canceled':
      return [{ text: 'Response stopped.' }];
    case 'input-required':
    case 'auth-required':
      return snapshot.pending.flatMap((request) => [
        { text: request.message ?? 'An answer is needed to go on.' },
        { data: { request } },
      ]);
    case 'completed': {
      const { text } = snapshot;
      return text === '' || text.length > STATUS_TEXT_CHARS ? [] : [{ text }];
    }
    case 'submitted':
    case 'working':
      return [];
  }
}

/** The text of `internal` never leaves the process. */
function publicText({ error, text }: Snapshot): string {
  if (!error) return text.slice(0, STATUS_TEXT_CHARS) || 'The agent failed without saying why.';
  return error.code === 'internal' ? 'The agent failed with an internal error.' : error.message;
}
