import { DuolaneError } from '../../errors.ts';
import type { Logger, Part, Snapshot, TaskState } from '../../event/types.ts';
import type { StreamRegistry } from '../../http/stream-registry.ts';
import { sseResponse, type SseItem } from '../../http/sse-response.ts';
import { jsonResponse } from '../../http/text-response.ts';
import { isObject, omitUndefined } from '../../json.ts';
import { waitForWake } from '../../stream/cancellable-generator.ts';
import { keepAlive } from '../../stream/keep-alive.ts';
import type { TaskFilter, TaskLog } from '../../task/types.ts';
import { reportFailure } from '../failure-response.ts';
import type { TaskPage, TaskRow } from '../page-api-types.ts';
import { httpRoute, type HttpRoute, type RouteCall } from '../router.ts';

interface TaskListOptions {
  readonly log: Pick<TaskLog, 'list' | 'onCommit'>;
  readonly heartbeatMs: number;
  readonly logger: Logger;
  readonly streams: StreamRegistry | undefined;
}

const PAGE_ROWS = 50;
const MAX_PAGE_ROWS = 200;
/** A search looks at so many tasks for one list page; the page may then search on. */
const MAX_SCANNED = 2000;
/** Lists are read again at most this often, however many commits there are. */
const QUIET_MS = 300;
/** Lists are read again after this time also without a commit: another replica may have one. */
const LOOK_MS = 5000;
const OVERLAP_MS = 2000;

const STATES: ReadonlySet<string> = new Set<TaskState>([
  'submitted',
  'working',
  'input-required',
  'auth-required',
  'completed',
  'failed',
  'canceled',
  'rejected',
]);

/** The list of a caller's tasks, and one stream of its changes for all lists of a page. */
export function taskListRoutes(options: TaskListOptions): readonly HttpRoute[] {
  const { log, heartbeatMs, streams } = options;
  return [
    httpRoute('GET', '/api/tasks', async (call) => jsonResponse(await listPage(log, call))),
    httpRoute('GET', '/api/changes', (call) => {
      const slot = streams?.openStream(call.owner, call.request.signal);
      const signal = slot?.signal ?? call.request.signal;
      const items = changes(options, call.owner, signal, () => slot?.release());
      return sseResponse(keepAlive(items, heartbeatMs, () => 'heartbeat' as const));
    }),
  ];
}

async function listPage(log: TaskListOptions['log'], { url, owner }: RouteCall): Promise<TaskPage> {
  const limit = readPageLimit(url.searchParams.get('limit'));
  const after = url.searchParams.get('after');
  const wanted = url.searchParams.get('q')?.trim().toLowerCase() ?? '';
  const items = log.list({
    ...readFilter(url.searchParams),
    // '' lists tasks without an owner; undefined would list the tasks of all owners.
    owner: owner ?? '',
    outline: true,
    ...(after !== null && { after }),
  });
  const tasks: TaskRow[] = [];
  let scanned = 0;
  for await (const snapshot of items) {
    scanned++;
    if (snapshot.owner === owner) {
      const row = taskRow(snapshot);
      if (wanted === '' || isMatch(row, wanted)) tasks.push(row);
    }
    if (tasks.length === limit || (wanted !== '' && scanned >= MAX_SCANNED))
      return omitUndefined<TaskPage>({
        tasks,
        after: items.checkpoint,
        scanned: wanted === '' ? undefined : scanned,
      });
  }
  return wanted === '' ? { tasks } : { tasks, scanned };
}

function readFilter(query: URLSearchParams): TaskFilter {
  const state = query.get('state') ?? undefined;
  if (state !== undefined && !STATES.has(state))
    throw new DuolaneError(
      'invalid',
      `invalid state "${state}": expected one of ${[...STATES].join(', ')}`,
    );
  return omitUndefined<TaskFilter>({
    agent: query.get('agent') ?? undefined,
    context: query.get('context') ?? undefined,
    state: state as TaskState | undefined,
  });
}

/** Anything but an integer from 1 is the default: with -1 or 0.5 a list page would have no end. */
function readPageLimit(given: string | null): number {
  const limit = Number(given ?? PAGE_ROWS);
  return Number.isInteger(limit) && limit > 0 ? Math.min(limit, MAX_PAGE_ROWS) : PAGE_ROWS;
}

/** What a search looks at: everything that a list has of a task. */
const isMatch = ({ title, agent, task, context, error, pending }: TaskRow, text: string): boolean =>
  [title, agent, task, context, error?.message, ...pending.map(({ message }) => message)].some(
    (each) => each?.toLowerCase().includes(text),
  );

/**
 * The tasks of a caller that change from now on, so that a page need not poll. A commit of this
 * process wakes it; a change of another replica is found by the next look.
 */
async function* changes(
  { log, logger }: TaskListOptions,
  owner: string | undefined,
  signal: AbortSignal,
  release: () => void,
): AsyncGenerator<SseItem, void, undefined> {
  let since = Date.now() - 1;
  let sent = new Map<string, number>();
  let isDirty = false;
  const listeners = new Set<() => void>();
  const unlisten = log.onCommit?.(() => {
    isDirty = true;
    for (const listener of listeners) listener();
  });
  const subscribe = (wake: () => void): (() => void) => {
    listeners.add(wake);
    return () => listeners.delete(wake);
  };
  try {
    yield { event: 'head', data: JSON.stringify({ at: Date.now() }), retry: 1000 };
    while (!signal.aborted) {
      if (!isDirty) await waitForWake(subscribe, signal, LOOK_MS);
      if (signal.aborted) return;
      isDirty = false;
      const found = await changedSince(log, owner, since);
      const rows = found.filter(({ task, seq }) => sent.get(task) !== seq);
      if (rows.length > 0) yield { event: 'tasks', data: JSON.stringify({ tasks: rows }) };
      sent = new Map(found.map(({ task, seq }) => [task, seq]));
      // Clocks of replicas differ a little, so the next look begins earlier; `sent` skips repeats.
      since = Math.max(since, ...found.map(({ updatedAt }) => updatedAt - OVERLAP_MS));
      await waitForWake(() => () => {}, signal, QUIET_MS);
    }
  } catch (error) {
    if (signal.aborted) return;
    const failure = reportFailure(error, logger, 'a stream of changed tasks failed');
    yield { event: 'failure', data: JSON.stringify(failure) };
  } finally {
    unlisten?.();
    release();
  }
}

async function changedSince(
  log: TaskListOptions['log'],
  owner: string | undefined,
  changedAfter: number,
): Promise<readonly TaskRow[]> {
  const rows: TaskRow[] = [];
  for await (const snapshot of log.list({ owner: owner ?? '', outline: true, changedAfter })) {
    if (snapshot.owner === owner) rows.push(taskRow(snapshot));
    if (rows.length === MAX_PAGE_ROWS) break;
  }
  return rows;
}

/** One row of the task list. */
export function taskRow(snapshot: Snapshot): TaskRow {
  return omitUndefined<TaskRow>({
    task: snapshot.task,
    context: snapshot.context,
    agent: snapshot.agent,
    state: snapshot.state,
    createdAt: snapshot.createdAt,
    updatedAt: snapshot.updatedAt,
    seq: snapshot.seq,
    pending: snapshot.pending,
    canceling: snapshot.canceling,
    running: snapshot.running,
    suspended: snapshot.suspended,
    attempt: snapshot.attempt,
    owner: snapshot.owner,
    error: snapshot.error,
    firstTextAt: snapshot.firstTextAt,
    usage: snapshot.usage,
    title: titleOf(snapshot.turns[0]?.parts[0]).slice(0, 120),
  });
}

function titleOf(part: Part | undefined): string {
  if (!part) return '';
  if ('text' in part) return part.text;
  if (!('data' in part)) return part.filename ?? '';
  const { data } = part;
  const named = isObject(data) ? (data['title'] ?? data['name']) : undefined;
  return typeof named === 'string' ? named : JSON.stringify(data);
}
