import { DuolaneError } from '../../errors.ts';
import type { Snapshot } from '../../event/types.ts';
import { raceAbort } from '../../stream/abort.ts';
import type { Items } from '../../stream/types.ts';
import { outlineOf } from '../store/task-outline.ts';
import type { DamagedTask, ListPosition, Store } from '../store/store.ts';
import type { TaskQuery } from '../types.ts';

const PAGE = 50;
/** Complete tasks may be long, so this much is read at a time. */
const PAGE_CHARS = 1 << 20;

/**
 * Lists the tasks that match, one list page at a time; `checkpoint` is the position after the last.
 */
export function listTasks(
  store: Store,
  { after, signal, outline = false, ...filter }: TaskQuery,
  onDamaged: (damaged: DamagedTask) => void,
): Items<Snapshot> {
  let position = after === undefined ? undefined : parsePosition(after);
  async function* items(): AsyncGenerator<Snapshot, void> {
    for (;;) {
      signal?.throwIfAborted();
      const request = {
        ...filter,
        ...(position && { after: position }),
        limit: PAGE,
        maxChars: PAGE_CHARS,
        ...(outline && { outline }),
      };
      const page = await raceAbort(store.page(request), signal);
      for (const [index, snapshot] of page.snapshots.entries()) {
        position = page.places[index];
        yield outline ? outlineOf(snapshot) : snapshot;
      }
      const { damaged = [], gone = 0, last, endsEarly = false } = page;
      for (const each of damaged) onDamaged(each);
      if (page.snapshots.length + damaged.length + gone < PAGE && !endsEarly) return;
      position = last ?? position;
    }
  }
  return {
    get checkpoint() {
      return position && `${position.changedAt}-${position.key}`;
    },
    [Symbol.asyncIterator]: items,
  };
}

function parsePosition(text: string): ListPosition {
  const [, changedAt, key] = /^(\d{1,15})-(\d{1,15})$/.exec(text) ?? [];
  if (changedAt === undefined)
    throw new DuolaneError(
      'invalid',
      `invalid position "${text}" in a list of tasks: expected a checkpoint that a list returned`,
    );
  return { changedAt: Number(changedAt), key: Number(key) };
}
