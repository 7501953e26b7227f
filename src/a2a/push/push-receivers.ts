import { isObject, type JsonObject } from '../../json.ts';
import type { Bookmark, TaskLog } from '../../task/types.ts';
import type { Version } from '../protocol/dialect.ts';
import type { PushConfig } from '../protocol/model.ts';

/** What a receiver was told to be: written when it is made, deleted with it, and otherwise left alone. */
export interface Saved extends JsonObject {
  readonly agent: string;
  readonly version: Version;
  readonly config: PushConfig;
  /** Another one each time a config is made, also under the same id. */
  readonly rev: string;
}

/** How far it has got, beside it: what is written here late brings no deleted receiver back. */
export interface Progress extends JsonObject {
  readonly rev: string;
  /** Everything was delivered; there is nothing to resume. */
  readonly done?: boolean;
  /** Where replicas share the log: which of them tells the receiver, and when it last said so. */
  readonly holder?: string;
  readonly beat?: number;
}

export interface Receiver {
  readonly task: string;
  readonly id: string;
  readonly saved: Saved;
  /** The entry up to which it has everything. */
  readonly after: number;
  readonly progress: Partial<Progress>;
}

const CONFIG = 'push/';
const PLACE = 'push-place/';

export const configMark = (task: string, id: string, after = 0, data?: Saved): Bookmark => ({
  task,
  name: CONFIG + id,
  after,
  ...(data && { data }),
});

export const placeMark = (task: string, id: string, after = 0, data?: Progress): Bookmark => ({
  task,
  name: PLACE + id,
  after,
  ...(data && { data }),
});

/** The receivers of one task, or of all. */
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
    const place = marks.find((mark) => mark.name === PLACE + id);
    const isKnown = place?.data !== undefined && place.data['rev'] === saved.rev;
    return [
      {
        task,
        id,
        saved,
        after: isKnown ? place.after : after,
        progress: isKnown ? (place.data as Progress) : {},
      },
    ];
  });
}
