import { advance } from '../event/advance.ts';
import type { Encoder, Entry, Snapshot } from '../event/types.ts';
import type { A2APart, StreamEvent } from './model.ts';
import {
  agentMessage,
  encodeArtifact,
  encodeTask,
  nameId,
  responseId,
  STATES,
  statusParts,
  timestamp,
} from './task.ts';

export interface A2AEncoder {
  readonly encode: Encoder<StreamEvent>;
  /** The fold of what was fed so far. */
  readonly snapshot: Snapshot | undefined;
}

/**
 * A task's log as A2A stream events: the task as `submitted`, then progress and artifacts in the
 * order of the log, then one status that ends the stream. Text is one artifact named `response`
 * that grows by appending, so bytes are linear; a retry that voids text replaces it.
 */
export function a2aEncoder(): A2AEncoder {
  let snapshot: Snapshot | undefined;
  let opened = false; // whether the response artifact of this run has its first chunk
  const encode = (entry: Entry): readonly StreamEvent[] => {
    const first = snapshot === undefined;
    const now = (snapshot = advance(snapshot, entry));
    const status = (parts: readonly A2APart[] = []): StreamEvent => ({
      statusUpdate: {
        taskId: now.task,
        contextId: now.context,
        status: {
          state: STATES[now.state],
          ...(parts.length > 0 && {
            message: agentMessage(now, nameId(`status/${now.task}/${entry.seq}`), parts),
          }),
          timestamp: timestamp(entry.at),
        },
      },
    });
    const text = (delta: string, last: boolean): StreamEvent => {
      const append = opened;
      opened = !last;
      return {
        artifactUpdate: {
          taskId: now.task,
          contextId: now.context,
          artifact: {
            artifactId: responseId(now.current),
            name: 'response',
            parts: [{ text: delta, mediaType: 'text/markdown' }],
          },
          ...(append && { append }),
          ...(last && { lastChunk: true }),
        },
      };
    };
    switch (entry.type) {
      case 'turn.submitted':
        return first ? [{ task: encodeTask(now) }] : [];
      case 'run.started':
        if (entry.discard) opened = false;
        return [status()];
      case 'retry':
        if (entry.discard) opened = false;
        return [
          status([{ text: `The model did not answer (${entry.error.code}); trying again.` }]),
        ];
      case 'text.delta':
        // After a discard the first chunk replaces the artifact by what the fold still holds.
        return [text(opened ? entry.delta : now.text, false)];
      case 'status':
        return [
          status([
            { text: entry.message },
            ...(entry.data === undefined ? [] : [{ data: entry.data }]),
          ]),
        ];
      case 'tool.called':
        return [
          status([
            { text: `Calling ${entry.name}` },
            { data: { tool: { callId: entry.callId, name: entry.name } } },
          ]),
        ];
      case 'tool.progress':
        return entry.message === undefined ? [] : [status([{ text: entry.message }])];
      case 'tool.failed':
        return [
          status([
            { text: `${entry.name} failed` },
            { data: { tool: { callId: entry.callId, name: entry.name, failed: true } } },
          ]),
        ];
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
        return [status(statusParts(now))];
      case 'run.finished': {
        if (entry.outcome === 'input-required') return [];
        const closing = opened ? [text('', true)] : [];
        return [...closing, status(statusParts(now))];
      }
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
  return {
    encode,
    get snapshot() {
      return snapshot;
    },
  };
}
