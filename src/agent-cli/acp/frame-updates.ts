import { asObject, asObjects, asString, type JsonObject } from '../../json.ts';
import { contentText } from '../models/types.ts';
import { describeToolCall } from './tool-updates.ts';

/** Whether the client accepts notices; without them a notice is only printed to stderr. */
export interface UpdateOptions {
  readonly cwd: string;
  readonly notices: boolean;
}

/**
 * Converts messages of the stream-json protocol to `session/update` notifications. Text comes from
 * the partial messages; the complete message repeats it and is used for its tool calls.
 */
export class FrameUpdates {
  readonly #options: UpdateOptions;
  #messageId = '';

  constructor(options: UpdateOptions) {
    this.#options = options;
  }

  read(frame: JsonObject): readonly JsonObject[] {
    const updates = this.#read(frame);
    const parent = asString(frame['parent_tool_use_id']);
    if (parent === '') return updates;
    // The name that clients know for a sub-agent's updates.
    const _meta = { claudeCode: { parentToolUseId: parent } };
    return updates.map((update) => ({ ...update, _meta }));
  }

  #read(frame: JsonObject): readonly JsonObject[] {
    switch (frame['type']) {
      case 'stream_event':
        return this.#event(asObject(frame['event']));
      case 'assistant':
        return this.#calls(frame);
      case 'user':
        return results(frame);
      case 'system':
        return this.#system(frame);
      default:
        return [];
    }
  }

  #event(event: JsonObject): readonly JsonObject[] {
    if (event['type'] === 'message_start')
      this.#messageId = asString(asObject(event['message'])['id']);
    if (event['type'] !== 'content_block_delta') return [];
    const { type, text, thinking } = asObject(event['delta']);
    if (type === 'text_delta') return [this.#chunk('agent_message_chunk', asString(text))];
    if (type === 'thinking_delta') return [this.#chunk('agent_thought_chunk', asString(thinking))];
    return [];
  }

  #chunk(sessionUpdate: string, text: string): JsonObject {
    const messageId = this.#messageId;
    return { sessionUpdate, content: { type: 'text', text }, ...(messageId && { messageId }) };
  }

  #calls(frame: JsonObject): readonly JsonObject[] {
    return asObjects(asObject(frame['message'])['content'])
      .filter(({ type }) => type === 'tool_use')
      .map(({ id, name, input }) => ({
        sessionUpdate: 'tool_call',
        ...describeToolCall(asString(id), asString(name), asObject(input), this.#options.cwd),
        status: 'in_progress',
      }));
  }

  #system(frame: JsonObject): readonly JsonObject[] {
    const { subtype, permissionMode, content, level } = frame;
    if (subtype === 'status' && typeof permissionMode === 'string')
      return [{ sessionUpdate: 'current_mode_update', currentModeId: permissionMode }];
    const title = subtype === 'api_retry' ? `Retrying: ${asString(frame['error'])}` : content;
    if (subtype !== 'informational' && subtype !== 'api_retry') return [];
    if (!this.#options.notices) return [];
    const severity = level === 'warning' || subtype === 'api_retry' ? 'warning' : 'info';
    return [{ sessionUpdate: 'notice', severity, title: asString(title) }];
  }
}

/** The results of tools in a message. */
function results(frame: JsonObject): readonly JsonObject[] {
  return asObjects(asObject(frame['message'])['content'])
    .filter(({ type }) => type === 'tool_result')
    .map(({ tool_use_id, content, is_error }) => {
      const text = contentText(content);
      return {
        sessionUpdate: 'tool_call_update',
        toolCallId: asString(tool_use_id),
        status: is_error === true ? 'failed' : 'completed',
        rawOutput: content,
        // A change to a file stays visible as its diff; a failure replaces it by its reason.
        ...(is_error === true && {
          content: [{ type: 'content', content: { type: 'text', text } }],
        }),
      };
    });
}

/** The messages of a transcript as updates, for a client that loads the session. */
export function historyUpdates(
  entries: readonly { readonly type: string; readonly message: JsonObject }[],
  cwd: string,
): readonly JsonObject[] {
  const updates = new FrameUpdates({ cwd, notices: false });
  return entries.flatMap((entry): readonly JsonObject[] => {
    const { content } = entry.message;
    const blocks =
      typeof content === 'string' ? [{ type: 'text', text: content }] : asObjects(content);
    const isUser = entry.type === 'user';
    const texts = blocks.flatMap((block): JsonObject[] => {
      const { type } = block;
      const text = asString(block[type === 'thinking' ? 'thinking' : 'text']);
      if (text === '' || (type !== 'text' && type !== 'thinking')) return [];
      const kind = type === 'thinking' ? 'agent_thought_chunk' : 'agent_message_chunk';
      return [
        { sessionUpdate: isUser ? 'user_message_chunk' : kind, content: { type: 'text', text } },
      ];
    });
    return [...texts, ...updates.read({ type: entry.type, message: { content: blocks } })];
  });
}
