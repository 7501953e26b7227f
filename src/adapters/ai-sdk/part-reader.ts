import { randomUUID } from 'node:crypto';
import { modelError } from '../../event/retry/model-error.ts';
import type { AgentEvent, FinishReason, Usage } from '../../event/types.ts';
import { asNumber, asObject, asString, type JsonObject, omitUndefined } from '../../json.ts';
import type { Pending } from '../shared/approval.ts';
import { toFailure, toolResultText, toolFailure } from '../shared/tool-failure.ts';
import { GrowingMessage, isUiMessage } from './sub-agent-message.ts';

/** A tool call that needs the approval of a person. */
export interface Approval extends Pending {
  readonly approvalId: string;
}

/**
 * Reads the parts of an AI SDK stream, versions 5 to 7, as agent events. A run uses one reader for
 * all its streams, so that steps are numbered across them. An error part is thrown as a
 * DuolaneError: the SDK itself continues after it, or ends the stream without an error.
 */
export class PartReader {
  /** Approvals that are requested since the last `takeApprovals`. */
  readonly #approvals: Approval[] = [];
  readonly #subAgents = new Map<string, GrowingMessage>();
  #step = 0;

  takeApprovals(): readonly Approval[] {
    return this.#approvals.splice(0);
  }

  read(part: JsonObject): readonly AgentEvent[] {
    const id = `${this.#step}:${asString(part['id'])}`;
    const callId = asString(part['toolCallId']) || asString(part['id']);
    const name = asString(part['toolName']);
    switch (part['type']) {
      case 'start-step':
        return [{ type: 'step.started', step: ++this.#step }];
      case 'text-delta':
        return [{ type: 'text.delta', id, delta: asString(part['text']) }];
      case 'reasoning-delta':
        return [{ type: 'reasoning.delta', id, delta: asString(part['text']) }];
      case 'tool-input-start':
        return [{ type: 'tool.started', callId, name }];
      case 'tool-input-delta':
        return [{ type: 'tool.args', callId, delta: asString(part['delta']) }];
      case 'tool-call':
        return [{ type: 'tool.called', callId, name, args: part['input'] }];
      case 'tool-result':
        return this.#result(part, callId, name);
      case 'tool-error':
        return [{ type: 'tool.failed', callId, name, error: toolFailure(part['error']) }];
      case 'tool-output-denied':
        return [
          { type: 'tool.failed', callId, name, error: toFailure('tool', 'the call was declined') },
        ];
      case 'tool-approval-request':
        this.#ask(part);
        return [];
      case 'file':
      case 'reasoning-file':
        return file(asObject(part['file']));
      case 'source':
        return [{ type: 'custom', name: 'source', data: part }];
      case 'finish-step':
        return [finished(part, this.#step)];
      case 'error':
        throw modelError(part['error'], 'internal');
      default:
        return [];
    }
  }

  #result(part: JsonObject, callId: string, name: string): readonly AgentEvent[] {
    const { output } = part;
    const isLast = part['preliminary'] !== true;
    const events = isUiMessage(output) ? this.#subAgent(callId).read(output) : undefined;
    if (!isLast) return events ?? [{ type: 'tool.progress', callId, data: output }];
    this.#subAgents.delete(callId);
    return [...(events ?? []), ended(output, callId, name)];
  }

  #subAgent(callId: string): GrowingMessage {
    const known = this.#subAgents.get(callId) ?? new GrowingMessage(callId);
    this.#subAgents.set(callId, known);
    return known;
  }

  #ask(part: JsonObject): void {
    // The SDK has decided it already, by a rule of the app.
    if (part['isAutomatic'] === true) return;
    const call = asObject(part['toolCall']);
    this.#approvals.push({
      approvalId: asString(part['approvalId']),
      callId: asString(call['toolCallId']),
      name: asString(call['toolName']),
      args: call['input'],
    });
  }
}

function ended(output: unknown, callId: string, name: string): AgentEvent {
  const { isError, content } = asObject(output);
  if (isError !== true) return { type: 'tool.completed', callId, name, output };
  return { type: 'tool.failed', callId, name, error: toolFailure(toolResultText(content)) };
}

function file({ mediaType, uint8Array, base64 }: JsonObject): AgentEvent[] {
  const bytes =
    uint8Array instanceof Uint8Array ? uint8Array : Buffer.from(asString(base64), 'base64');
  const part = { bytes, mediaType: asString(mediaType) || 'application/octet-stream' };
  return [{ type: 'artifact', artifactId: randomUUID(), name: 'file', parts: [part], last: true }];
}

const REASONS: ReadonlySet<unknown> = new Set<FinishReason>([
  'stop',
  'tool-calls',
  'length',
  'content-filter',
  'error',
]);

function finished(part: JsonObject, step: number): AgentEvent {
  const reason = part['finishReason'];
  const firstChunkMs = asNumber(asObject(part['performance'])['timeToFirstOutputMs']);
  return {
    type: 'step.finished',
    step,
    reason: REASONS.has(reason) ? (reason as FinishReason) : 'other',
    usage: readAiSdkUsage(asObject(part['usage'])),
    ...(firstChunkMs !== undefined && { firstChunkMs }),
  };
}

/** Version 5 has flat fields for cached and reasoning tokens; later ones have detail objects. */
export function readAiSdkUsage(usage: JsonObject): Usage {
  const input = asObject(usage['inputTokenDetails']);
  const output = asObject(usage['outputTokenDetails']);
  return omitUndefined<Usage>({
    inputTokens: asNumber(usage['inputTokens']),
    outputTokens: asNumber(usage['outputTokens']),
    reasoningTokens: asNumber(output['reasoningTokens']) ?? asNumber(usage['reasoningTokens']),
    cacheReadTokens: asNumber(input['cacheReadTokens']) ?? asNumber(usage['cachedInputTokens']),
    cacheWriteTokens: asNumber(input['cacheWriteTokens']),
  });
}
