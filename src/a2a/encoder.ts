import { advance } from '../event/advance.ts';
import type { Encoder, Entry, Snapshot } from '../event/types.ts';
import type { A2AArtifact, A2APart, A2ATask, StreamEvent } from './model.ts';
import {
  encodeArtifact,
  encodeStatus,
  encodeTask,
  responseArtifact,
  responseId,
  type TaskView,
} from './task.ts';

export interface A2AEncoder {
  readonly encode: Encoder<StreamEvent>;
  /** The fold of what was fed so far; undefined before the first entry. */
  readonly snapshot: Snapshot | undefined;
  /** The task as it stands: what a client has that folded every event so far. */
  task(view?: Omit<TaskView, 'earlier'>): A2ATask;
}

/**
 * A task's log as A2A stream events: the task as `submitted`, then progress and artifacts in the
 * order of the log, then one status that ends the stream. The text of a run is one artifact named
 * `response` that grows by appending, so bytes are linear; after a retry that voids text the next
 * piece replaces it. What sub-agents say, reasoning and frames are not shown.
 */
export function a2aEncoder(): A2AEncoder {
  let snapshot: Snapshot | undefined;
  const earlier: A2AArtifact[] = [];
  let response = ''; // the id of this run's text
  let opened = false; // the client has some of it
  let stale = false; // and some of that is void

  const encode = (entry: Entry): readonly StreamEvent[] => {
    const before = snapshot;
    const now = (snapshot = advance(before, entry));
    if (entry.type === 'run.started' && before?.current !== now.current) {
      if (before && before.text !== '') earlier.push(responseArtifact(response, before.text));
      response = responseId(now.current);
      opened = stale = false;
    }
    return eventsOf(entry, now, before === undefined);
  };

  const eventsOf = (entry: Entry, now: Snapshot, first: boolean): readonly StreamEvent[] => {
    switch (entry.type) {
      case 'turn.submitted':
        return first ? [{ task: encodeTask(now) }] : [];
      case 'run.started':
        stale ||= opened && entry.discard === true;
        return [status(now)];
      case 'retry':
        if (!entry.path?.length) stale ||= opened && entry.discard;
        return [says(now, `The model did not answer (${entry.error.code}); trying again.`)];
      case 'text.delta':
        return entry.path?.length ? [] : [text(now, entry.delta)];
      case 'status':
        return [says(now, entry.message, entry.data)];
      case 'tool.called': {
        const { callId, name } = entry;
        return [says(now, `Calling ${name}`, { tool: { callId, name } })];
      }
      case 'tool.progress':
        return entry.message === undefined ? [] : [says(now, entry.message)];
      case 'tool.failed': {
        const { callId, name } = entry;
        return [says(now, `${name} failed`, { tool: { callId, name, failed: true } })];
      }
      case 'artifact':
        return [
          {
            artifactUpdate: {
              taskId: now.task,
              contextId: now.context,
              artifact: encodeArtifact(entry),
              ...(entry.append && { append: true }),
              ...(entry.last && { lastChunk: true }),
            },
          },
        ];
      case 'input.required':
        return [status(now)];
      case 'run.finished':
        return [
          ...(stale ? [text(now, '')] : []),
          ...(entry.outcome === 'input-required' ? [] : [status(now)]),
        ];
      case 'cancel.requested':
      case 'step.started':
      case 'step.finished':
      case 'text.end':
      case 'reasoning.delta':
      case 'reasoning.end':
      case 'tool.started':
      case 'tool.args':
      case 'tool.completed':
      case 'frame':
      case 'custom':
        return [];
    }
  };

  const text = (now: Snapshot, delta: string): StreamEvent => {
    const append = opened && !stale;
    opened = true;
    stale = false;
    const artifact = responseArtifact(response, append ? delta : now.text);
    return {
      artifactUpdate: {
        taskId: now.task,
        contextId: now.context,
        artifact,
        ...(append && { append }),
      },
    };
  };

  return {
    encode,
    get snapshot() {
      return snapshot;
    },
    task: (view) => encodeTask(snapshot as Snapshot, { ...view, earlier }),
  };
}

const status = (now: Snapshot, parts?: readonly A2APart[]): StreamEvent => ({
  statusUpdate: { taskId: now.task, contextId: now.context, status: encodeStatus(now, parts) },
});

const says = (now: Snapshot, message: string, data?: unknown): StreamEvent =>
  status(now, [{ text: message }, ...(data === undefined ? [] : [{ data }])]);
