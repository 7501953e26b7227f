import type { Seq } from '../../event/types.ts';
import type { RecentOptions } from '../../stream/lru-cache.ts';
import { heapShare, snapshotChars } from '../text-budget.ts';
import type { TaskHead } from '../store/storage-engine.ts';

/** A task that is kept folded in memory. */
export interface Hot extends TaskHead {
  readonly key: number;
  /** The number that its row has: that of its last change. Tokens do not touch the row. */
  readonly changedSeq: Seq;
  /** The entry that its stored snapshot has folded last; 0 while there is none. */
  readonly savedSeq: Seq;
}

/** What is kept folded is bounded by its text too; a task beyond is folded from the file again. */
export const hotOptions = (parts: number): RecentOptions<Hot> => ({
  maxWeight: heapShare() / parts,
  weigh: ({ snapshot }) => snapshotChars(snapshot),
});
