import { randomUUID } from 'node:crypto';
import type { Part, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { Operation, Result, Version } from '../protocol/dialect.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import { eventStream, type TaskEventStream } from './task-stream.ts';
import type { A2AMessage } from '../protocol/model.ts';
import type { Caller, Operations, Submitted } from './task-operations.ts';
import type { PushConfigs } from '../push/push-configs.ts';
import {
  readLength,
  readList,
  readPush,
  readSend,
  readTaskId,
  requireString,
} from './parse-params.ts';
import type { StreamSlot } from './stream-registry.ts';
import { encodePart } from '../protocol/task-encoder.ts';

/** Answers a turn before it becomes a task: with the parts of a plain message, at least one, or not at all. */
export type Reply = (
  turn: Turn,
  options: { readonly signal: AbortSignal },
) => Promise<readonly Part[] | undefined>;

export interface DispatchContext {
  readonly operations: Operations;
  readonly push: PushConfigs | undefined;
  readonly reply: Reply | undefined;
  readonly extendedCard: ((caller: Caller, version: Version) => JsonObject) | undefined;
  /** What the agent takes, as its card says. */
  readonly inputModes: readonly string[];
  readonly maxParts: number;
}

export interface DispatchOptions {
  readonly caller: Caller;
  readonly version: Version;
  /** Where the caller's last stream broke off. */
  readonly lastEventId?: string | undefined;
  /** Aborts when the caller leaves, and when the server does. */
  readonly leaving: StreamSlot;
}

export type Streamed = { readonly kind: 'events'; readonly events: TaskEventStream };

/** One operation, with its parameters in the spelling of 1.0. Throws `A2AError`s. */
export async function dispatch(
  operation: Operation,
  params: JsonObject,
  server: DispatchContext,
  call: DispatchOptions,
): Promise<Result | Streamed> {
  const { operations } = server;
  const { version, leaving } = call;
  const tenant = call.caller.tenant ?? requireString(params, 'tenant');
  const caller = tenant === undefined ? call.caller : { ...call.caller, tenant };
  switch (operation) {
    case 'send':
    case 'stream':
      return send(operation, params, server, call, caller);
    case 'get': {
      const length = readLength(params['historyLength']);
      return { kind: 'task', task: await operations.get(readTaskId(params), caller, length) };
    }
    case 'cancel': {
      const task = readTaskId(params);
      const asItIs = unlessDisconnected(leaving, () => operations.get(task, caller));
      return { kind: 'task', task: await operations.cancel(task, caller, leaving).catch(asItIs) };
    }
    case 'subscribe': {
      const task = readTaskId(params);
      const after = call.lastEventId;
      const { ended, events } = await operations.subscribe(task, caller, after, leaving);
      if (ended && after === undefined && version === '1.0')
        throw new A2AError(
          'UNSUPPORTED_OPERATION',
          `task ${task} has ended; read it with GetTask, or subscribe with Last-Event-ID to get what was missed`,
        );
      return { kind: 'events', events };
    }
    case 'list':
      return { kind: 'page', page: await operations.list(readList(params), caller) };
    case 'createPush': {
      const push = need(server.push);
      const { task, seq } = await operations.own(readTaskId(params, 'taskId'), caller);
      const given = readPush(params);
      await push.check(given.url);
      return { kind: 'pushConfig', config: await push.create(task, given, version, seq) };
    }
    case 'getPush':
    case 'listPush':
    case 'deletePush': {
      const push = need(server.push);
      const { task } = await operations.own(readTaskId(params, 'taskId'), caller);
      const id = requireString(params, 'id');
      if (operation === 'listPush') return { kind: 'pushConfigs', configs: await push.list(task) };
      if (operation === 'getPush') return { kind: 'pushConfig', config: await push.get(task, id) };
      await push.delete(task, id);
      return { kind: 'nothing' };
    }
    case 'extendedCard':
      if (server.extendedCard) return { kind: 'card', card: server.extendedCard(caller, version) };
      throw new A2AError(
        version === '0.3' ? 'EXTENDED_AGENT_CARD_NOT_CONFIGURED' : 'UNSUPPORTED_OPERATION',
        'this agent has no extended card',
      );
  }
}

async function send(
  operation: 'send' | 'stream',
  params: JsonObject,
  { operations, push, reply, inputModes, maxParts }: DispatchContext,
  { version, leaving, lastEventId }: DispatchOptions,
  caller: Caller,
): Promise<Result | Streamed> {
  const incoming = readSend(params, { maxParts });
  for (const { mediaType } of incoming.parts) checkMedia(mediaType, inputModes);
  if (incoming.push) await need(push).check(incoming.push.url);
  const turn = await operations.prepare(incoming, caller, lastEventId);
  const parts =
    incoming.taskId === undefined ? await reply?.(turn, { signal: leaving.signal }) : undefined;
  if (parts) {
    const message = replyMessage(turn, parts);
    if (operation === 'send') return { kind: 'sent', sent: { message } };
    const events = eventStream(() => once([{ id: '1', out: { message }, last: true }]));
    return { kind: 'events', events };
  }
  const submit = async (): Promise<Submitted> => {
    const submitted = await operations.submit(turn);
    if (incoming.push) {
      const place = { task: submitted.task, messageId: turn.messageId };
      await need(push).ensure(place, incoming.push, version, submitted.entry.seq - 1);
    }
    return submitted;
  };
  // Pulled by the response, so that its headers go out beside the commit, not after it.
  if (operation === 'stream') {
    const { historyLength } = incoming;
    const more = {
      ...(historyLength !== undefined && { historyLength }),
      ...(lastEventId !== undefined && { after: lastEventId }),
    };
    return { kind: 'events', events: operations.stream(submit, leaving, more) };
  }
  const { task } = await submit();
  if (incoming.blocking)
    await operations.settled(task, leaving).catch(unlessDisconnected(leaving, () => undefined));
  return {
    kind: 'sent',
    sent: { task: await operations.get(task, caller, incoming.historyLength) },
  };
}

/** A server that goes away says how it stands to who waits; for a caller that left there is nobody to tell. */
const unlessDisconnected =
  <T>(leaving: StreamSlot, asItIs: () => T) =>
  (error: unknown): T => {
    if (leaving.closedByServer()) return asItIs();
    throw error;
  };

function need(push: PushConfigs | undefined): PushConfigs {
  if (push) return push;
  throw new A2AError('PUSH_NOTIFICATION_NOT_SUPPORTED', 'this server sends no push notifications');
}

/** A type that the card does not name is refused; a part without one is left to the agent. */
function checkMedia(mediaType: string | undefined, modes: readonly string[]): void {
  if (mediaType === undefined) return;
  const [type = ''] = mediaType.toLowerCase().split(';');
  const [family] = type.split('/');
  const taken = modes.some((mode) => mode === type || mode === '*/*' || mode === `${family}/*`);
  if (taken) return;
  throw new A2AError(
    'CONTENT_TYPE_NOT_SUPPORTED',
    `this agent does not take ${type}; it takes ${modes.join(', ')}`,
  );
}

function replyMessage(turn: Turn, parts: readonly Part[]): A2AMessage {
  if (parts.length === 0)
    throw new A2AError(
      'INVALID_AGENT_RESPONSE',
      'the agent answered with a message that has no parts, and A2A wants at least one: `reply` must give a part, or undefined to make a task of the turn',
    );
  return {
    messageId: randomUUID(),
    contextId: turn.context,
    role: 'ROLE_AGENT',
    parts: parts.map(encodePart),
  };
}

async function* once<T>(only: T): AsyncGenerator<T, void, undefined> {
  yield only;
}
