import type { JsonObject } from '../../json.ts';
import { asObject } from '../../json.ts';

/**
 * Converts a chunk of Mastra to the equivalent part of the AI SDK. Mastra uses almost the same
 * types, with their members in a `payload`.
 */
export function partOf(chunk: JsonObject): JsonObject {
  const { type } = chunk;
  const payload = asObject(chunk['payload']);
  const { toolCallId, toolName } = payload;
  switch (type) {
    case 'step-start':
      return { type: 'start-step' };
    case 'step-finish': {
      const finishReason = asObject(payload['stepResult'])['reason'];
      return { type: 'finish-step', finishReason, usage: asObject(payload['output'])['usage'] };
    }
    case 'tool-call-input-streaming-start':
      return { type: 'tool-input-start', id: toolCallId, toolName };
    case 'tool-call-delta':
      return { type: 'tool-input-delta', id: toolCallId, delta: payload['argsTextDelta'] };
    case 'tool-call':
      return { ...payload, type, input: payload['args'] };
    case 'tool-result':
      return { ...payload, type, output: payload['result'] };
    case 'tool-output':
      return { ...payload, type: 'tool-result', preliminary: true, output: payload['output'] };
    case 'file':
    case 'reasoning-file': {
      const { data, base64 } = payload;
      const bytes = data instanceof Uint8Array ? { uint8Array: data } : { base64: base64 ?? data };
      return { type: 'file', file: { ...bytes, mediaType: payload['mimeType'] } };
    }
    case 'tool-call-approval': {
      const toolCall = { toolCallId, toolName, input: payload['args'] };
      return { type: 'tool-approval-request', approvalId: toolCallId, toolCall };
    }
    default:
      return { ...payload, type };
  }
}
