import { DuolaneError } from '../errors.ts';
import { truncateEvent } from '../event/truncate-event.ts';
import type { AgentEvent, Entry, Frame, Part, TaskEvent } from '../event/types.ts';
import { asArray, asObject, isObject, type JsonObject } from '../json.ts';
import type { TraceItem } from './read-trace.ts';

/**
 * One recorded task: the entries of a log unchanged, or entries made from the frames of one turn.
 */
export interface RecordedTask {
  readonly id: string;
  readonly entries: readonly Entry[];
}

/**
 * Converts a recording to tasks that can be shown like any other. The entries of a log are one
 * task. A trace of frames has one task for each message of the host, with the events that `read`
 * gives; frames between two turns belong to the second. Nothing is repaired: a call without a
 * response stays open. Throws `invalid` for an A2A stream, which has no lanes, and for a line that
 * cannot be read.
 */
export async function recordedTasks(
  items: AsyncIterable<TraceItem>,
  read: (frame: Frame) => readonly AgentEvent[],
): Promise<readonly RecordedTask[]> {
  const tasks: Recording[] = [];
  let early: Frame[] = [];
  const record = (recording: Recording, frame: Frame): void => {
    for (const event of read(frame))
      if (event.type !== 'run.started') recording.add(truncateEvent(event), frame.at);
  };
  for await (const item of items) {
    if (item.kind === 'event')
      throw new DuolaneError(
        'invalid',
        'cannot show an A2A stream: it has no lanes; replay it in the terminal',
      );
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
      for (const waiting of early) record(recording, waiting);
      early = [];
      continue;
    }
    const current = tasks.at(-1);
    if (current && !current.over) record(current, frame);
    else early.push(frame);
  }
  if (tasks.length === 0)
    throw new DuolaneError(
      'invalid',
      'cannot show this trace: it has no message of the host; record a session with a prompt',
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

  /** Whether the task has its result. */
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
  const { content } = asObject(data['message']);
  if (typeof content === 'string') return [{ text: content }];
  return asArray(content).map((block) =>
    isObject(block) && typeof block['text'] === 'string'
      ? { text: block['text'] }
      : { data: block as JsonObject },
  );
}
