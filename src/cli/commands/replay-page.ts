import { frameReader } from '../../adapters/stream-json/frame-reader.ts';
import { advance } from '../../event/fold/advance.ts';
import type { Entry, Snapshot } from '../../event/types.ts';
import { listen } from '../../http/node-server.ts';
import { readRoutes, type ReadableLog } from '../../serve/routes/page-api.ts';
import { createGuard } from '../../serve/auth/guard.ts';
import { stderrLogger } from '../../serve/stderr-logger.ts';
import { pageRoutes } from '../../serve/routes/page-files.ts';
import { createRouter } from '../../serve/router.ts';
import { createSessions } from '../../serve/auth/login-session.ts';
import { type RecordedTask, recordedTasks, type TraceItem } from '../../trace/index.ts';

const HOST = '127.0.0.1';
const HEARTBEAT_MS = 15_000;

/** Serves the page for a recording, read-only; the page plays it at `speed`. */
export async function replayOnPage(
  items: AsyncIterable<TraceItem>,
  { speed, port }: { readonly speed: number; readonly port: number },
): Promise<AsyncDisposable & { readonly url: string }> {
  const tasks = await recordedTasks(items, frameReader());
  const guard = createGuard(HOST);
  const route = createRouter([
    ...readRoutes({
      agents: [],
      log: recordedLog(tasks),
      heartbeatMs: HEARTBEAT_MS,
      logger: stderrLogger(),
    }),
    ...createSessions().routes,
    ...pageRoutes(),
  ]);
  const listening = await listen(
    async (request) => (await guard(request)).response ?? route(request, undefined),
    { host: HOST, port },
  );
  return {
    url: `${listening.url}/?replay=${speed}#${tasks[0]?.id}`,
    [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose](),
  };
}

function recordedLog(tasks: readonly RecordedTask[]): ReadableLog {
  const known = new Map(
    tasks.map(({ id, entries }) => [id, { entries, snapshot: fold(id, entries) }] as const),
  );
  return {
    get: async (task) => known.get(task)?.snapshot,
    list: () => listed([...known.values()].map(({ snapshot }) => snapshot)),
    async *read(task, after) {
      for (const entry of known.get(task)?.entries ?? []) if (entry.seq > after) yield entry;
    },
  };
}

async function* listed(snapshots: readonly Snapshot[]): AsyncGenerator<Snapshot, void, undefined> {
  yield* snapshots;
}

/** Folds the valid entries. The page shows the others too, with the rule that they break. */
function fold(task: string, entries: readonly Entry[]): Snapshot {
  let snapshot: Snapshot | undefined;
  for (const entry of entries) {
    try {
      snapshot = advance(snapshot, entry);
    } catch {
      // A damaged entry is omitted from the snapshot; the doctor reports it.
      continue;
    }
  }
  return { ...(snapshot ?? emptySnapshot(task)), task, seq: entries.at(-1)?.seq ?? 0 };
}

const emptySnapshot = (task: string): Snapshot =>
  advance(undefined, {
    type: 'turn.submitted',
    turn: { messageId: task, agent: 'trace', task, context: task, parts: [] },
    seq: 1,
    at: 0,
  });
