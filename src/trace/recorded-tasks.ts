import { DuolaneError } from '../errors.ts';
import { truncateEvent } from '../event/truncate-event.ts';
import type { AgentEvent, Entry, Frame, Part, TaskEvent } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';
import type { TraceItem } from './read-trace.ts';

/** One recorded task: entries of a log as they were, or what the frames of one turn tell. */
export interface RecordedTask {
  readonly id: string;
  readonly entries: readonly Entry[];
}

/**
 * What was recorded, as tasks that can be shown like any other. The entries of a log are one task. A
 * trace of frames has one for each message that the host sent, told by `read`; what the pipe said
 * between the turns belongs to the one that follows. Nothing is mended: a call without an answer stays open.
 * Throws `invalid` for an A2A stream, which has no lanes to show, and for a line that cannot be read.
 */
export async function recordedTasks(
  items: AsyncIterable<TraceItem>,
  read: (frame: Frame) => readonly AgentEvent[],
): Promise<readonly RecordedTask[]> {
  const tasks: Recording[] = [];
  let early: Frame[] = [];
  const tell = (recording: Recording, frame: Frame): void => {
    for (const event of read(frame))
      if (event.type !== 'run.started') recording.add(truncateEvent(event), frame.at);
  };
  for await (const item of items) {
    if (item.kind === 'event')
      throw new DuolaneError('invalid', 'an A2A stream has no lanes: replay it in the terminal');
    if (item.kind === 'unreadable')
      throw new DuolaneError('invalid', `line ${item.line}: ${item.why}`);
    if (item.kind === 'entry') {
      if (tasks.length === 0) tasks.push(new Recording(taskOf(item.entry)));
      tasks.at(-1)?.entries.push(item.entry);
      continue;
    }
    const { frame } = item;
    if (isPrompt(frame)) {
      const recording = new Recording(`turn-${tasks.length + 1}`);
      tasks.push(recording);
      recording.begin(frame);
      for (const waiting of early) tell(recording, waiting);
      early = [];
      continue;
    }
    const current = tasks.at(-1);
    if (current && !current.over) tell(current, frame);
    else early.push(frame);
  }
  if (tasks.length === 0)
    throw new DuolaneError(
      'invalid',
      'nobody says anything in this trace: there is nothing to show',
    );
  return tasks;
}

class Recording implements RecordedTask {
  readonly id: string;
  readonly entries: Entry[] = [];

  constructor(id: string) {
    this.id = id;
  }

  begin({ data, at }: Frame): void {
    const turn = {
      messageId: typeof data['uuid'] === 'string' ? data['uuid'] : this.id,
      agent: 'trace',
      task: this.id,
      context: this.id,
      parts: partsOf(data),
    };
    this.add({ type: 'turn.submitted', turn }, at);
    this.add({ type: 'run.started' }, at);
  }

  /** It has its result. */
  get over(): boolean {
    return this.entries.at(-1)?.type === 'run.finished';
  }

  add(event: TaskEvent, at: number): void {
    this.entries.push({ ...event, seq: this.entries.length + 1, at } as Entry);
  }
}

const taskOf = (entry: Entry): string =>
  entry.type === 'turn.submitted' ? entry.turn.task : 'recorded';

const isPrompt = ({ lane, direction, data }: Frame): boolean =>
  lane === 'message' && direction === 'out' && data['type'] === 'user';

function partsOf(data: JsonObject): readonly Part[] {
  const content = isObject(data['message']) ? data['message']['content'] : undefined;
  if (typeof content === 'string') return [{ text: content }];
  const blocks: readonly unknown[] = Array.isArray(content) ? content : [];
  return blocks.map((block) =>
    isObject(block) && typeof block['text'] === 'string'
      ? { text: block['text'] }
      : { data: block as JsonObject },
  );
}
