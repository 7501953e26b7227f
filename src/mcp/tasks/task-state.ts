import type { Snapshot } from '../../event/types.ts';
import { asObject, omitUndefined, type JsonObject } from '../../json.ts';
import { RPC_CODE } from '../../wire/json-rpc-errors.ts';
import { keyOf, toWire } from '../sources/input-codec.ts';
import type { ToolTask } from '../types.ts';
import { callOf, FAILURE, readArtifact, RESULT } from './call-agent.ts';

const STATUS: Readonly<Record<Snapshot['state'], ToolTask['status']>> = {
  submitted: 'working',
  working: 'working',
  'input-required': 'input_required',
  'auth-required': 'input_required',
  completed: 'completed',
  failed: 'failed',
  rejected: 'failed',
  canceled: 'cancelled',
};

/** How long a task is kept, and how often its client should ask. */
export interface TaskTimes {
  readonly ttlMs: number | null;
  readonly pollIntervalMs: number;
}

/** The times that a task was created with. */
export function timesOf({ turns: [first] }: Snapshot): TaskTimes {
  const { ttlMs, pollIntervalMs } = asObject(first?.metadata);
  return {
    ttlMs: typeof ttlMs === 'number' ? ttlMs : null,
    pollIntervalMs: typeof pollIntervalMs === 'number' ? pollIntervalMs : 1_000,
  };
}

/** Whether the time to live of a task has passed. */
export function isExpired(snapshot: Snapshot): boolean {
  const { ttlMs } = timesOf(snapshot);
  return ttlMs !== null && Date.now() > snapshot.createdAt + ttlMs;
}

/** A task of the log as a task of the protocol. */
export function toTask(snapshot: Snapshot, message?: string): ToolTask {
  const { task, createdAt, updatedAt, artifacts, canceling } = snapshot;
  const status = STATUS[snapshot.state];
  const isOpen = status === 'working' || status === 'input_required';
  const statusMessage =
    isOpen && canceling ? 'The cancellation was requested.' : messageOf(snapshot, status, message);
  return omitUndefined<ToolTask>({
    taskId: task,
    status,
    statusMessage,
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ...timesOf(snapshot),
    inputRequests: status === 'input_required' ? inputRequestsOf(snapshot) : undefined,
    result:
      status === 'completed' ? (readArtifact(artifacts, RESULT) ?? { content: [] }) : undefined,
    error: status === 'failed' ? errorOf(snapshot) : undefined,
  });
}

function messageOf(
  { error }: Snapshot,
  status: ToolTask['status'],
  message: string | undefined,
): string | undefined {
  if (status === 'working') return message;
  return status === 'failed' ? error?.message : undefined;
}

/** The open questions, by their keys. */
function inputRequestsOf({ pending, turns: [first] }: Snapshot): JsonObject {
  const callId = first ? callOf(first).id : '';
  return Object.fromEntries(
    pending.map((request) => [keyOf(callId, request), toWire(request)] as const),
  );
}

/** The error of the call, or why the task failed without one, such as a process that was killed. */
function errorOf({ artifacts, error }: Snapshot): JsonObject {
  return (
    readArtifact(artifacts, FAILURE) ?? {
      code: RPC_CODE[error?.code ?? 'internal'],
      message: error?.message ?? 'the task failed',
    }
  );
}
