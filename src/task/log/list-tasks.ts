import { DuolaneError } from '../../errors.ts';
import type { Snapshot } from '../../event/types.ts';
import type { Items } from '../../stream/types.ts';
import { outlineOf } from '../store/task-outline.ts';
import type { DamagedTask, ListPosition, Store } from '../store/store.ts';
import type { TaskQuery } from '../types.ts';

const PAGE = 50;
/** Of whole tasks, which may be long, so much is read at a time. */
const PAGE_CHARS = 1 << 20;

/** The tasks that match, page by page as they are pulled; `checkpoint` is the place after the last one given. */
export function listTasks(
  store: Store,
  { after, signal, outline = false, ...filter }: TaskQuery,
  onDamaged: (damaged: DamagedTask) => void,
): Items<Snapshot> {
  let place = after === undefined ? undefined : parsePlace(after);
  async function* items(): AsyncGenerator<Snapshot, void> {
    for (;;) {
      signal?.throwIfAborted();
      const page = await store.page({
        ...filter,
        ...(place && { after: place }),
        limit: PAGE,
        maxChars: PAGE_CHARS,
        ...(outline && { outline }),
      });
      for (const [index, snapshot] of page.snapshots.entries()) {
        place = page.places[index];
        yield outline ? outlineOf(snapshot) : snapshot;
      }
      const { damaged = [], gone = 0, last, endsEarly = false } = page;
      for (const each of damaged) onDamaged(each);
      if (page.snapshots.length + damaged.length + gone < PAGE && !endsEarly) return;
      place = last ?? place;
    }
  }
  return {
    get checkpoint() {
      return place && `${place.changedAt}-${place.key}`;
    },
    [Symbol.asyncIterator]: items,
  };
}

function parsePlace(text: string): ListPosition {
  const [, changedAt, key] = /^(\d{1,15})-(\d{1,15})$/.exec(text) ?? [];
  if (changedAt === undefined)
    throw new DuolaneError('invalid', `'${text}' is no place in a list of tasks`);
  return { changedAt: Number(changedAt), key: Number(key) };
}
