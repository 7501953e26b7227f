import { DuolaneError } from '../../errors.ts';
import type { Logger, TaskState } from '../../event/types.ts';
import type { StreamRegistry } from '../../http/stream-registry.ts';
import { sseResponse, type SseItem } from '../../http/sse-response.ts';
import { jsonResponse } from '../../http/text-response.ts';
import { omitUndefined } from '../../json.ts';
import { keepAlive } from '../../stream/keep-alive.ts';
import type { TaskFilter, TaskLog } from '../../task/types.ts';
import { reportFailure } from '../failure-response.ts';
import type { TaskPage, TaskRow } from '../page-api-types.ts';
import { httpRoute, type HttpRoute, type RouteCall } from '../router.ts';
import { TaskChanges } from './task-changes.ts';
import { taskRow } from './task-row.ts';

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
  const { log, heartbeatMs, streams, logger } = options;
  const changed = new TaskChanges(log);
  return [
    httpRoute('GET', '/api/tasks', async (call) => jsonResponse(await listPage(log, call))),
    httpRoute('GET', '/api/changes', (call) => {
      const slot = streams?.openStream(call.owner, call.request.signal);
      const signal = slot?.signal ?? call.request.signal;
      const items = changes(changed, logger, call.owner, signal, () => slot?.release());
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
  changed: TaskChanges,
  logger: Logger,
  owner: string | undefined,
  signal: AbortSignal,
  release: () => void,
): AsyncGenerator<SseItem, void, undefined> {
  const reader = changed.open(owner);
  try {
    yield { event: 'head', data: JSON.stringify({ at: Date.now() }), retry: 1000 };
    for (let next = await reader.next(signal); next; next = await reader.next(signal))
      yield { event: 'tasks', data: next.text };
  } catch (error) {
    if (signal.aborted) return;
    const failure = reportFailure(error, logger, 'a stream of changed tasks failed');
    yield { event: 'failure', data: JSON.stringify(failure) };
  } finally {
    reader.close();
    release();
  }
}
