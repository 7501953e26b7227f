import { randomUUID } from 'node:crypto';
import type { Part, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { Abortable } from '../../stream/types.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import type { Dialect, Operation, Result } from '../protocol/dialect.ts';
import type { A2AMessage } from '../protocol/model.ts';
import { encodePart } from '../protocol/task-encoder.ts';
import type { PushConfigs } from '../push/push-configs.ts';
import {
  readLength,
  readList,
  readPush,
  readSend,
  readTaskId,
  optionalString,
} from './parse-params.ts';
import type { StreamRegistry, StreamSlot } from '../../http/stream-registry.ts';
import type { Caller, Operations, Submitted } from './task-operations.ts';
import { once, type TaskStreamEvent } from './task-stream.ts';

/**
 * Replies to a turn before it becomes a task. Parts, at least one, are sent as a message and no
 * task is created; undefined creates the task.
 */
export type Reply = (
  turn: Turn,
  options: { readonly signal: AbortSignal },
) => Promise<readonly Part[] | undefined>;

/** What the bindings of one server share. */
export interface ServerContext {
  readonly operations: Operations;
  /** Undefined if the server sends no push notifications. */
  readonly push: PushConfigs | undefined;
  readonly reply: Reply | undefined;
  readonly extendedCard:
    | ((caller: Caller, shape: Dialect['extendedCard']) => JsonObject)
    | undefined;
  /** The media types that the agent accepts, as its card says. */
  readonly inputModes: readonly string[];
  readonly maxParts: number;
  readonly streams: StreamRegistry;
  readonly heartbeatMs: number;
  readonly maxBodyBytes: number;
  readonly extensions: readonly string[];
  readonly requiredExtensions: readonly string[];
  /** Gets internal failures, whose text callers do not see. */
  readonly onError: (error: unknown) => void;
}

/** A request, as a binding has read it. */
export interface OperationCall {
  readonly operation: Operation;
  readonly dialect: Dialect;
  /**
   * In the form of the dialect. `dispatch` takes them out: an operation may wait for the end of a
   * run, and must not keep a long request in memory meanwhile.
   */
  params: JsonObject;
  readonly caller: Caller;
  /** The last event that the caller has received. */
  readonly lastEventId: string | undefined;
  /** The extensions that the caller supports. */
  readonly extensions: readonly string[];
  /** Aborts when the caller disconnects. */
  readonly disconnect: Required<Abortable>;
}

/** The events of a task in batches. The reader must release the slot, however the stream ends. */
export interface TaskStream {
  readonly kind: 'stream';
  readonly batches: AsyncIterable<TaskStreamEvent[]>;
  readonly slot: StreamSlot;
}

export interface Dispatched {
  /** The extensions that caller and server both support. */
  readonly agreed: readonly string[];
  readonly outcome: Result | TaskStream;
}

/**
 * Runs one operation, the same for all bindings: agrees on extensions, takes a slot, decodes the
 * parameters and calls the operation. Throws `A2AError`s, and errors for `toA2AError`.
 */
export async function dispatch(call: OperationCall, server: ServerContext): Promise<Dispatched> {
  const { operation, caller, disconnect } = call;
  const agreed = agreeExtensions(server, call);
  const { streams } = server;
  const slot = isStream(operation)
    ? streams.openStream(caller.owner, disconnect)
    : streams.openUnary(disconnect);
  let streaming = false;
  try {
    const outcome = await runOperation(call, server, slot);
    streaming = outcome.kind === 'stream';
    return { agreed, outcome };
  } finally {
    // The reader of a stream releases its slot.
    if (!streaming) slot.release();
  }
}

export const isStream = (operation: Operation): boolean =>
  operation === 'stream' || operation === 'subscribe';

/**
 * Throws if the caller lacks an extension that the agent requires; returns those that both support.
 */
function agreeExtensions(
  { extensions, requiredExtensions }: ServerContext,
  { extensions: supported, dialect }: OperationCall,
): readonly string[] {
  const missing = requiredExtensions.filter((uri) => !supported.includes(uri));
  if (missing.length > 0)
    throw new A2AError(
      dialect.missingExtension,
      `missing required extension ${missing.join(', ')}; name it in the header A2A-Extensions`,
    );
  return extensions.filter((uri) => supported.includes(uri));
}

async function runOperation(
  call: OperationCall,
  server: ServerContext,
  slot: StreamSlot,
): Promise<Result | TaskStream> {
  const { operation, dialect, lastEventId } = call;
  const { operations } = server;
  const params = dialect.decode(operation, call.params);
  call.params = {};
  const tenant = call.caller.tenant ?? optionalString(params, 'tenant');
  const caller = tenant === undefined ? call.caller : { ...call.caller, tenant };
  switch (operation) {
    case 'send':
    case 'stream':
      return send(call, params, caller, server, slot);
    case 'get': {
      const length = readLength(params['historyLength']);
      return { kind: 'task', task: await operations.get(readTaskId(params), caller, length) };
    }
    case 'cancel':
      return cancel(operations, readTaskId(params), caller, slot);
    case 'subscribe': {
      const task = readTaskId(params);
      const { ended, batches } = await operations.subscribe(task, caller, lastEventId, slot);
      if (ended && lastEventId === undefined && !dialect.subscribesEnded)
        throw new A2AError(
          'UNSUPPORTED_OPERATION',
          `cannot subscribe: task "${task}" has ended; read it with GetTask, or send Last-Event-ID to get the missed events`,
        );
      return { kind: 'stream', batches, slot };
    }
    case 'list':
      return { kind: 'page', page: await operations.list(readList(params), caller) };
    case 'createPush': {
      const push = requirePush(server.push);
      const { task, seq } = await operations.own(readTaskId(params, 'taskId'), caller);
      const config = readPush(params);
      await push.check(config.url);
      return { kind: 'pushConfig', config: await push.create(task, config, dialect.version, seq) };
    }
    case 'getPush':
    case 'listPush':
    case 'deletePush': {
      const push = requirePush(server.push);
      const { task } = await operations.own(readTaskId(params, 'taskId'), caller);
      const id = optionalString(params, 'id');
      if (operation === 'listPush') return { kind: 'pushConfigs', configs: await push.list(task) };
      if (operation === 'getPush') return { kind: 'pushConfig', config: await push.get(task, id) };
      await push.delete(task, id);
      return { kind: 'nothing' };
    }
    case 'extendedCard':
      if (!server.extendedCard)
        throw new A2AError(dialect.missingCard, 'this agent has no extended card');
      return { kind: 'card', card: server.extendedCard(caller, dialect.extendedCard) };
  }
}

async function send(
  { operation, dialect, lastEventId }: OperationCall,
  params: JsonObject,
  caller: Caller,
  { operations, push, reply, inputModes, maxParts }: ServerContext,
  slot: StreamSlot,
): Promise<Result | TaskStream> {
  const incoming = readSend(params, { maxParts });
  for (const { mediaType } of incoming.parts) checkMedia(mediaType, inputModes);
  if (incoming.push) await requirePush(push).check(incoming.push.url);
  const turn = await operations.prepare(incoming, caller, lastEventId);
  if (incoming.push && incoming.taskId !== undefined)
    await push?.checkRoom(turn, incoming.push, dialect.version);
  const parts =
    incoming.taskId === undefined ? await reply?.(turn, { signal: slot.signal }) : undefined;
  if (parts) {
    const message = replyMessage(turn, parts);
    if (operation === 'send') return { kind: 'sent', sent: { message } };
    const batches = once([{ id: '1', out: { message }, last: true }]);
    return { kind: 'stream', batches, slot };
  }
  const submit = async (): Promise<Submitted> => {
    const submitted = await operations.submit(turn);
    if (incoming.push) {
      const { task, entry } = submitted;
      const { messageId } = turn;
      const config = incoming.push;
      await requirePush(push).ensure({ task, messageId }, config, dialect.version, entry.seq - 1);
    }
    return submitted;
  };
  const { historyLength } = incoming;
  // The stream submits the turn with its first read, so that the headers of the response go out
  // while the turn is committed, not after it.
  if (operation === 'stream') {
    const batches = operations.stream(submit, slot, lastEventId, historyLength);
    return { kind: 'stream', batches, slot };
  }
  const { task } = await submit();
  const { blocking } = incoming;
  // A function of its own: while this one waits, its frame would keep the message in memory.
  return sentTask(operations, { task, caller, blocking, historyLength }, slot);
}

async function sentTask(
  operations: Operations,
  {
    task,
    caller,
    blocking,
    historyLength,
  }: {
    readonly task: string;
    readonly caller: Caller;
    readonly blocking: boolean;
    readonly historyLength: number | undefined;
  },
  slot: StreamSlot,
): Promise<Result> {
  if (blocking)
    await operations.settled(task, slot).catch(unlessDisconnected(slot, () => undefined));
  return { kind: 'sent', sent: { task: await operations.get(task, caller, historyLength) } };
}

async function cancel(
  operations: Operations,
  task: string,
  caller: Caller,
  slot: StreamSlot,
): Promise<Result> {
  const current = unlessDisconnected(slot, () => operations.get(task, caller));
  return { kind: 'task', task: await operations.cancel(task, caller, slot).catch(current) };
}

/**
 * Handles the abort of a wait. When the server drains, a waiting caller gets the current task. If
 * the caller disconnected, the error is rethrown.
 */
const unlessDisconnected =
  <T>(slot: StreamSlot, current: () => T) =>
  (error: unknown): T => {
    if (slot.closedByServer()) return current();
    throw error;
  };

/**
 * Why a stream ended early: the error for the caller, a drain, or undefined if the caller
 * disconnected.
 */
export function streamEndReason(
  error: unknown,
  slot: StreamSlot,
  onError: ServerContext['onError'],
): A2AError | 'drain' | undefined {
  if (slot.closedByServer()) return 'drain';
  return slot.aborted ? undefined : toA2AError(error, onError);
}

/** The error for the caller. Reports an internal failure, whose text the caller does not see. */
export function toA2AError(error: unknown, onError: ServerContext['onError']): A2AError {
  const converted = A2AError.of(error);
  const { reason } = converted;
  const withheld = reason === 'INTERNAL_ERROR' || reason === 'UNAVAILABLE';
  if (converted !== error ? withheld : reason === 'INVALID_AGENT_RESPONSE') onError(error);
  return converted;
}

function requirePush(push: PushConfigs | undefined): PushConfigs {
  if (push) return push;
  throw new A2AError(
    'PUSH_NOTIFICATION_NOT_SUPPORTED',
    'this server does not send push notifications',
  );
}

/**
 * Throws for a media type that the card does not name. The agent decides about parts without one.
 */
function checkMedia(mediaType: string | undefined, modes: readonly string[]): void {
  if (mediaType === undefined) return;
  const [type = ''] = mediaType.toLowerCase().split(';');
  const [family] = type.split('/');
  const accepted = modes.some((mode) => mode === type || mode === '*/*' || mode === `${family}/*`);
  if (accepted) return;
  throw new A2AError(
    'CONTENT_TYPE_NOT_SUPPORTED',
    `unsupported media type "${type}"; this agent accepts ${modes.join(', ')}`,
  );
}

function replyMessage(turn: Turn, parts: readonly Part[]): A2AMessage {
  if (parts.length === 0)
    throw new A2AError(
      'INVALID_AGENT_RESPONSE',
      'the agent sent a message without parts: `reply` must return at least one part, or undefined to create a task',
    );
  return {
    messageId: randomUUID(),
    contextId: turn.context,
    role: 'ROLE_AGENT',
    parts: parts.map(encodePart),
  };
}
