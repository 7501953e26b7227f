import type { Seq } from '../../event/types.ts';
import type { RecentOptions } from '../../stream/lru-cache.ts';
import { heapShare, snapshotChars } from '../text-budget.ts';
import type { TaskHead } from '../store/storage-engine.ts';

/** A task that is kept folded in memory. */
export interface HotTask extends TaskHead {
  readonly key: number;
  /** The entry of its last change, which its row has. A token does not touch the row. */
  readonly changedSeq: Seq;
  /** The last entry that its stored snapshot includes; 0 without a snapshot. */
  readonly savedSeq: Seq;
  /** The length of its log. Infinity if it was loaded from the file: it may have an outline. */
  readonly logChars: number;
}

/** Limits the cache by text too. A task beyond the limit is folded from the file again. */
export const hotOptions = (parts: number): RecentOptions<HotTask> => ({
  maxWeight: heapShare() / parts,
  weigh: ({ snapshot }) => snapshotChars(snapshot),
});
