import { randomUUID } from 'node:crypto';
import type { StreamRegistry } from '../../http/stream-registry.ts';
import { DuolaneError } from '../../errors.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import { encodeEntry } from '../../event/entry-codec.ts';
import type { Entry, Logger, Snapshot } from '../../event/types.ts';
import { sseResponse, type SseItem } from '../../http/sse-response.ts';
import { jsonResponse, textResponse } from '../../http/text-response.ts';
import { traceContext } from '../../http/trace-context.ts';
import type { JsonObject } from '../../json.ts';
import { keepAlive } from '../../stream/keep-alive.ts';
import type { Abortable } from '../../stream/types.ts';
import { getOwnTask } from '../../task/log/own-task.ts';
import { uuidV7 } from '../../task/uuid-v7.ts';
import type { OnRefusedAnswers, ReplicaInfo, Runner, TaskLog } from '../../task/types.ts';
import type { AgentCardLite, ReplicaRow, StreamHead, ToolServerLite } from '../page-api-types.ts';
import { checkForm, readJsonBody, readTurn } from './read-body.ts';
import { answered, reportFailure } from '../failure-response.ts';
import { taskListRoutes } from './task-list-routes.ts';
import { taskRow } from './task-row.ts';
import { forOperators, type IsOperator } from '../auth/operators.ts';
import { httpRoute, type HttpRoute, type RouteCall } from '../router.ts';

/** The part of a log that the page reads. */
export interface ReadableLog extends Pick<TaskLog, 'get' | 'list' | 'onCommit' | 'replicas'> {
  read(task: string, after: number, options?: Abortable): AsyncIterable<Entry>;
}

export interface ReadApiOptions {
  readonly agents: readonly AgentCardLite[];
  /** The tool servers that the page shows; none by default. */
  readonly tools?: readonly ToolServerLite[];
  readonly log: ReadableLog;
  readonly heartbeatMs: number;
  /** Gets failures whose text is withheld from callers. */
  readonly logger: Logger;
  /** The open streams, counted for each owner. */
  readonly streams?: StreamRegistry;
  /** Which owners may read the replicas; every caller by default. */
  readonly isOperator?: IsOperator;
}

export interface ApiOptions extends ReadApiOptions {
  readonly log: TaskLog;
  readonly runner: Runner;
  readonly onRefusedAnswers: OnRefusedAnswers;
  readonly maxBodyBytes: number;
}

/** How soon the page reconnects after its stream has broken. */
const RETRY_MS = 1000;

/** How often the page gets a sign of life: without it, the page shows the state as unknown. */
const PAGE_BEAT_MS = 5000;

/** A heartbeat that a script sees. Browsers hide the comments of a stream from the page. */
const BEAT: SseItem = { event: 'beat', data: '{}' };

/** The size of a chunk of a trace: one chunk per small entry would cost more than the entry. */
const CHUNK_CHARS = 64 * 1024;

/** The task of a call. For callers that do not own it, it does not exist. */
async function ownTask(log: ReadableLog, call: RouteCall): Promise<Snapshot> {
  const snapshot = await getOwnTask(log, call.params['task'] ?? '', { owner: call.owner });
  if (snapshot) return snapshot;
  throw new DuolaneError(
    'not_found',
    `task "${call.params['task']}" not found; it may have been pruned`,
  );
}

/**
 * The API of the page. It streams entries as the log stores them, with the log's numbers as event
 * ids, so that the page sees both lanes and resumes without a gap.
 */
export function apiRoutes(options: ApiOptions): readonly HttpRoute[] {
  const { agents, log, runner, onRefusedAnswers, maxBodyBytes } = options;
  const submit = async (
    call: RouteCall,
    target: { readonly agent: string; readonly task: string; readonly context: string },
    body: JsonObject,
  ): Promise<Response> => {
    const { parts, answers } = readTurn(body);
    const messageId = typeof body['messageId'] === 'string' ? body['messageId'] : randomUUID();
    const metadata = traceContext(call.request);
    const entry = await runner.submit({
      ...target,
      messageId,
      parts,
      ...(call.owner !== undefined && { owner: call.owner }),
      ...(answers.length > 0 && { answers }),
      ...(metadata && { metadata }),
    });
    // A message that was sent before belongs to the task that it created then.
    const { task, context } = entry.type === 'turn.submitted' ? entry.turn : target;
    return jsonResponse({ task, context, seq: entry.seq }, { status: 201 });
  };
  /** Reports answers to the task of another owner to the audit log. The agent is unknown then. */
  const refused = async (call: RouteCall, body: JsonObject, error: unknown): Promise<void> => {
    const { answers } = readTurn(body);
    const messageId = typeof body['messageId'] === 'string' ? body['messageId'] : undefined;
    const target = { agent: '', owner: call.owner ?? '', task: call.params['task'] ?? '' };
    if (answers.length > 0) await onRefusedAnswers({ ...target, messageId, answers }, error);
  };
  const routes: readonly HttpRoute[] = [
    httpRoute('POST', '/api/agents/:agent/turns', async (call) => {
      const agent = call.params['agent'] ?? '';
      const card = agents.find(({ name }) => name === agent);
      if (!card)
        throw new DuolaneError(
          'not_found',
          `agent "${agent}" not found; available: ${agents.map(({ name }) => name).join(', ')}`,
        );
      const body = await readJsonBody(call.request, maxBodyBytes);
      if (body['data'] !== undefined && card.form) await checkForm(card.form, body['data']);
      const context = typeof body['context'] === 'string' ? body['context'] : uuidV7();
      return submit(call, { agent, task: uuidV7(), context }, body);
    }),
    httpRoute('POST', '/api/tasks/:task/turns', async (call) => {
      const body = await readJsonBody(call.request, maxBodyBytes);
      const { agent, task, context } = await ownTask(log, call).catch(async (error: unknown) => {
        await refused(call, body, error);
        throw error;
      });
      return submit(call, { agent, task, context }, body);
    }),
    httpRoute('POST', '/api/tasks/:task/cancel', async (call) => {
      await readJsonBody(call.request, maxBodyBytes);
      const { task } = await ownTask(log, call);
      return jsonResponse(taskRow(await log.requestCancel(task)));
    }),
  ];
  return [...readRoutes(options), ...routes.map((route) => answered(route, options.logger))];
}

/** The routes of the page that only read: agents, replicas, tasks, entries and traces. */
export function readRoutes({
  agents,
  tools = [],
  log,
  heartbeatMs,
  logger,
  streams,
  isOperator = () => true,
}: ReadApiOptions): readonly HttpRoute[] {
  const routes: readonly HttpRoute[] = [
    httpRoute('GET', '/api/agents', () => jsonResponse({ agents, tools })),
    forOperators(
      httpRoute('GET', '/api/replicas', async ({ owner }) => {
        const replicas = (await log.replicas?.()) ?? [];
        return jsonResponse({ replicas: replicas.map((each) => replicaRow(each, owner)) });
      }),
      isOperator,
    ),
    ...taskListRoutes({ log, heartbeatMs, streams, logger }),
    httpRoute('GET', '/api/tasks/:task', async (call) =>
      textResponse(JSON.stringify(await ownTask(log, call)), 200, {
        'content-type': 'application/json',
      }),
    ),
    httpRoute('GET', '/api/tasks/:task/entries', async (call) => {
      const snapshot = await ownTask(log, call);
      const last =
        call.request.headers.get('last-event-id') ?? call.url.searchParams.get('after') ?? '0';
      const after = Math.max(0, Number.parseInt(last, 10) || 0);
      const slot = streams?.openStream(call.owner, call.request.signal);
      const signal = slot?.signal ?? call.request.signal;
      const beatMs = Math.min(heartbeatMs, PAGE_BEAT_MS);
      const items = entries(log, snapshot, after, { signal, logger, beatMs }, () =>
        slot?.release(),
      );
      return sseResponse(keepAlive(items, beatMs, () => BEAT));
    }),
    httpRoute('GET', '/api/tasks/:task/trace', async (call) =>
      trace(log, await ownTask(log, call), call.request.signal),
    ),
  ];
  return routes.map((route) => answered(route, logger));
}

/** A replica with the caller's own tasks. Of other owners it shows only how many run there. */
function replicaRow({ tasks, ...replica }: ReplicaInfo, caller = ''): ReplicaRow {
  const own = tasks.filter(({ owner }) => owner === caller);
  return {
    ...replica,
    tasks: own.map(({ task, agent, state, leaseMs }) => ({ task, agent, state, leaseMs })),
  };
}

/**
 * The stream of a task: first the current number of the log, so that the reader knows what is
 * replay, then the entries, then the end.
 */
async function* entries(
  log: ReadableLog,
  { task, seq, state }: Snapshot,
  after: number,
  {
    signal,
    logger,
    beatMs,
  }: { readonly signal: AbortSignal; readonly logger: Logger; readonly beatMs: number },
  release: () => void,
): AsyncGenerator<SseItem, void, undefined> {
  const head: StreamHead = { seq, at: Date.now(), over: isFinal(state), beatMs };
  try {
    yield { event: 'head', data: JSON.stringify(head), retry: RETRY_MS };
    for await (const entry of log.read(task, after, { signal })) {
      yield { id: String(entry.seq), data: encodeEntry(entry) };
    }
    yield { event: 'end', data: '{}' };
  } catch (error) {
    if (signal.aborted) return;
    // Not named `error`: browsers use that name for the loss of the connection.
    const failure = reportFailure(error, logger, 'a stream of entries failed');
    const { retryAfterMs: retry } = failure;
    yield {
      event: 'failure',
      data: JSON.stringify(failure),
      ...(retry !== undefined && { retry }),
    };
  } finally {
    release();
  }
}

/**
 * The entries up to now as JSON lines, oldest first, as a download. Later entries are not in it.
 */
function trace(log: ReadableLog, { task, seq }: Snapshot, signal: AbortSignal): Response {
  const lines = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
    const encoder = new TextEncoder();
    let chunk = '';
    for await (const entry of log.read(task, 0, { signal })) {
      chunk += `${encodeEntry(entry)}\n`;
      if (chunk.length < CHUNK_CHARS && entry.seq < seq) continue;
      yield encoder.encode(chunk);
      chunk = '';
      if (entry.seq >= seq) return;
    }
  };
  return new Response(ReadableStream.from(lines()), {
    headers: {
      'content-type': 'application/jsonl; charset=utf-8',
      'content-disposition': `attachment; filename="${task.replaceAll(/[^\w.-]/g, '_')}.jsonl"`,
      'cache-control': 'no-store',
    },
  });
}
