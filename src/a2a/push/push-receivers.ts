import { isObject, type JsonObject } from '../../json.ts';
import type { Bookmark, TaskLog } from '../../task/types.ts';
import type { Version } from '../protocol/dialect.ts';
import type { PushConfig } from '../protocol/model.ts';

/**
 * The configuration of a receiver: written when it is created, deleted with it, and never changed.
 */
export interface Saved extends JsonObject {
  readonly agent: string;
  readonly version: Version;
  readonly config: PushConfig;
  /** Different each time a config is created, also under the same id. */
  readonly rev: string;
}

/**
 * The progress of a receiver, in a bookmark of its own: a late write cannot restore a deleted
 * receiver.
 */
export interface Progress extends JsonObject {
  readonly rev: string;
  /** Everything was delivered, so there is nothing to resume. */
  readonly done?: boolean;
  /**
   * If replicas share the log: the one that delivers to the receiver, and the time of its last
   * beat.
   */
  readonly holder?: string;
  readonly beat?: number;
}

/** A push receiver with its progress. */
export interface Receiver {
  readonly task: string;
  readonly id: string;
  readonly saved: Saved;
  /** The number of the last delivered entry. */
  readonly after: number;
  readonly progress: Partial<Progress>;
}

const CONFIG = 'push/';
const PROGRESS = 'push-place/';

/** A bookmark of a receiver; without data it deletes the bookmark. */
type ReceiverBookmark<T> = (task: string, id: string, after?: number, data?: T) => Bookmark;

const bookmarkOf =
  <T extends JsonObject>(prefix: string): ReceiverBookmark<T> =>
  (task, id, after = 0, data) => ({ task, name: prefix + id, after, ...(data && { data }) });

export const configBookmark: ReceiverBookmark<Saved> = bookmarkOf(CONFIG);
export const progressBookmark: ReceiverBookmark<Progress> = bookmarkOf(PROGRESS);

/**
 * The receivers of one task, or of all tasks. Expects the bookmarks of a task one after the other.
 */
export async function* receiversOf(
  log: TaskLog,
  task?: string,
): AsyncGenerator<Receiver, void, undefined> {
  let marks: Bookmark[] = [];
  for await (const mark of log.bookmarks(task)) {
    if (marks[0] && marks[0].task !== mark.task) {
      yield* read(marks);
      marks = [];
    }
    marks.push(mark);
  }
  yield* read(marks);
}

function read(marks: readonly Bookmark[]): readonly Receiver[] {
  return marks.flatMap(({ task, name, after, data }): Receiver[] => {
    if (!name.startsWith(CONFIG) || !data || !isObject(data['config'])) return [];
    const saved = data as Saved;
    const id = name.slice(CONFIG.length);
    const progress = marks.find((mark) => mark.name === PROGRESS + id);
    const isCurrent = progress?.data !== undefined && progress.data['rev'] === saved.rev;
    return [
      {
        task,
        id,
        saved,
        after: isCurrent ? progress.after : after,
        progress: isCurrent ? (progress.data as Progress) : {},
      },
    ];
  });
}
