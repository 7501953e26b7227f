import { randomUUID } from 'node:crypto';
import type { Answer } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import { encodeEntry } from '../event/json.ts';
import type { Part, Snapshot } from '../event/types.ts';
import { sseResponse, type SseItem } from '../http/sse.ts';
import { isObject, type JsonObject } from '../json.ts';
import { keepAlive } from '../stream/keep-alive.ts';
import type { Runner, TaskLog } from '../task/types.ts';
import type { Call, Route } from './router.ts';

/** What the page is told about an agent. */
export interface AgentCardLite {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the run form, with `examples` as samples. */
  readonly form?: JsonObject;
}

export interface ApiOptions {
  readonly agents: readonly AgentCardLite[];
  readonly log: TaskLog;
  readonly runner: Runner;
  readonly heartbeatMs: number;
}

const MAX_BODY_BYTES = 16 * 1024 * 1024;

/**
 * What the page asks of its own server: entries as the log has them, with the log's own ids, so the
 * page sees both lanes, resumes without a gap and needs no protocol of its own.
 */
export function apiRoutes({ agents, log, runner, heartbeatMs }: ApiOptions): readonly Route[] {
  const own = async (call: Call): Promise<Snapshot> => {
    const snapshot = await log.get(call.params['task'] ?? '');
    if (snapshot && snapshot.owner === call.owner) return snapshot;
    throw new DuolaneError('not_found', `there is no task ${call.params['task']}`);
  };
  const submit = async (
    call: Call,
    place: { readonly agent: string; readonly task: string; readonly context: string },
    body: JsonObject,
  ): Promise<Response> => {
    const { parts, answers } = readTurn(body);
    const messageId = typeof body['messageId'] === 'string' ? body['messageId'] : randomUUID();
    const entry = await runner.submit({
      ...place,
      messageId,
      parts,
      ...(call.owner !== undefined && { owner: call.owner }),
      ...(answers.length > 0 && { answers }),
    });
    return Response.json(
      { task: place.task, context: place.context, seq: entry.seq },
      { status: 201 },
    );
  };
  const routes: readonly Route[] = [
    { method: 'GET', path: '/api/agents', handle: () => Response.json({ agents }) },
    {
      method: 'GET',
      path: '/api/tasks',
      handle: async (call) => {
        const limit = Math.min(Number(call.url.searchParams.get('limit') ?? 50) || 50, 200);
        const after = call.url.searchParams.get('after');
        const tasks: TaskRow[] = [];
        const items = log.list({
          ...(call.owner !== undefined && { owner: call.owner }),
          ...(after !== null && { after }),
        });
        for await (const snapshot of items) {
          if (snapshot.owner === call.owner) tasks.push(taskRow(snapshot));
          if (tasks.length === limit) return Response.json({ tasks, after: items.checkpoint });
        }
        return Response.json({ tasks });
      },
    },
    {
      method: 'GET',
      path: '/api/tasks/:task',
      handle: async (call) => Response.json(await own(call)),
    },
    {
      method: 'GET',
      path: '/api/tasks/:task/entries',
      handle: async (call) => {
        const { task } = await own(call);
        const last =
          call.request.headers.get('last-event-id') ?? call.url.searchParams.get('after') ?? '0';
        const after = Number.parseInt(last, 10) || 0;
        return sseResponse(
          keepAlive(
            entries(log, task, after, call.request.signal),
            heartbeatMs,
            () => 'heartbeat' as const,
          ),
        );
      },
    },
    {
      method: 'POST',
      path: '/api/agents/:agent/turns',
      handle: async (call) => {
        const agent = call.params['agent'] ?? '';
        if (!agents.some(({ name }) => name === agent)) {
          throw new DuolaneError('not_found', `there is no agent ${agent}`);
        }
        const body = await readJson(call.request);
        const context = typeof body['context'] === 'string' ? body['context'] : randomUUID();
        return submit(call, { agent, task: randomUUID(), context }, body);
      },
    },
    {
      method: 'POST',
      path: '/api/tasks/:task/turns',
      handle: async (call) => {
        const { agent, task, context } = await own(call);
        return submit(call, { agent, task, context }, await readJson(call.request));
      },
    },
    {
      method: 'POST',
      path: '/api/tasks/:task/cancel',
      handle: async (call) => {
        await readJson(call.request);
        const { task } = await own(call);
        return Response.json(taskRow(await log.requestCancel(task)));
      },
    },
  ];
  return routes.map((route) => ({
    ...route,
    handle: (call) => answering(() => route.handle(call)),
  }));
}

export type TaskRow = Pick<
  Snapshot,
  | 'task'
  | 'context'
  | 'agent'
  | 'state'
  | 'createdAt'
  | 'updatedAt'
  | 'seq'
  | 'firstTextAt'
  | 'usage'
  | 'pending'
> & { readonly title: string };

/** One line of the task list. */
function taskRow(snapshot: Snapshot): TaskRow {
  const { task, context, agent, state, createdAt, updatedAt, seq, firstTextAt, usage, pending } =
    snapshot;
  const [first] = snapshot.turns[0]?.parts ?? [];
  const title = first && 'text' in first ? first.text.slice(0, 120) : '';
  return {
    task,
    context,
    agent,
    state,
    createdAt,
    updatedAt,
    seq,
    pending,
    title,
    ...(firstTextAt !== undefined && { firstTextAt }),
    ...(usage && { usage }),
  };
}

async function* entries(
  log: TaskLog,
  task: string,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<SseItem, void, undefined> {
  try {
    for await (const entry of log.read(task, after, { signal })) {
      yield { id: String(entry.seq), data: encodeEntry(entry) };
    }
    yield { event: 'end', data: '{}' };
  } catch (error) {
    if (signal.aborted) return;
    yield { event: 'error', data: JSON.stringify(DuolaneError.from(error)) };
  }
}

function readTurn(body: JsonObject): {
  readonly parts: readonly Part[];
  readonly answers: readonly Answer[];
} {
  const { text, data, answers } = body;
  const parts: Part[] = [];
  if (typeof text === 'string' && text !== '') parts.push({ text });
  if (data !== undefined) parts.push({ data });
  const given = Array.isArray(answers) ? (answers as readonly Answer[]) : [];
  if (parts.length === 0 && given.length === 0) {
    throw new DuolaneError('invalid', 'a turn needs text, data or answers');
  }
  for (const { id, action } of given) {
    if (typeof id !== 'string' || !['accept', 'decline', 'cancel'].includes(action)) {
      throw new DuolaneError(
        'invalid',
        'an answer needs id and action (accept, decline or cancel)',
      );
    }
  }
  return { parts, answers: given };
}

/** Only JSON: a form of another site cannot send that without asking first. */
async function readJson(request: Request): Promise<JsonObject> {
  if (!/^application\/json\b/i.test(request.headers.get('content-type') ?? '')) {
    throw new DuolaneError('invalid', 'send application/json');
  }
  const text = await request.text();
  if (text.length > MAX_BODY_BYTES)
    throw new DuolaneError('too_large', `a body is at most ${MAX_BODY_BYTES} bytes`);
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch (cause) {
    throw new DuolaneError('invalid', 'the body is not JSON', { cause });
  }
  throw new DuolaneError('invalid', 'the body must be a JSON object');
}

const STATUS: Partial<Record<DuolaneError['code'], number>> = {
  not_found: 404,
  invalid: 400,
  closed: 409,
  conflict: 409,
  too_large: 413,
  unauthorized: 401,
};

async function answering(handle: () => Promise<Response> | Response): Promise<Response> {
  try {
    return await handle();
  } catch (error) {
    const failure = DuolaneError.from(error).toJSON();
    const status = STATUS[failure.code] ?? 500;
    const message =
      failure.code === 'internal' ? 'The server failed; its log says why.' : failure.message;
    return Response.json({ error: { ...failure, message } }, { status });
  }
}
