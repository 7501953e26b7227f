import type { AgentEvent, AgentEventBody, FinishReason, Usage } from '../../event/types.ts';
import {
  asArray,
  asNumber,
  asObject,
  asObjects,
  asString,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import { toolFailure } from '../shared/tool-failure.ts';
import { blockPart } from './content-blocks.ts';

/** A tool call of the agent, as its updates have described it so far. */
interface AcpCall {
  fields: JsonObject;
  isCalled: boolean;
  isClosed: boolean;
}

/** The name and arguments of a call, as the log and a person get them. */
export interface DescribedCall {
  readonly callId: string;
  readonly name: string;
  readonly args: unknown;
}

/** How many closed calls are remembered, to ignore their late updates. */
const MAX_CALLS = 10_000;

/**
 * Converts `session/update` notifications to agent events. The protocol has no steps, so they are
 * inferred: what the agent writes after all its tool calls have ended begins a new step.
 */
export class UpdateReader {
  readonly #artifactPrefix: string;
  readonly #calls = new Map<string, AcpCall>();
  #step = 0;
  #isInStep = false;
  /** A call of this step has ended. */
  #hadCall = false;
  #open = 0;
  #block: { readonly kind: string; readonly message: string; readonly id: string } | undefined;
  #blocks = 0;
  #artifacts = 0;
  #costBefore: number | undefined;
  #costUsd: number | undefined;

  /**
   * `artifactPrefix` begins the ids of artifacts; it must differ for each turn. `isNew`: the
   * session began with this turn, so that its cost is that of the turn.
   */
  constructor(artifactPrefix: string, { isNew }: { readonly isNew: boolean }) {
    this.#artifactPrefix = artifactPrefix;
    this.#costBefore = isNew ? 0 : undefined;
  }

  read(update: JsonObject): readonly AgentEvent[] {
    const path = pathOf(update);
    return this.#read(update, path !== undefined).map((body) => ({
      ...body,
      ...(path && { path }),
    }));
  }

  /** The call that asks for permission. Its arguments are complete now. */
  asking(toolCall: JsonObject): {
    readonly call: DescribedCall;
    readonly events: readonly AgentEvent[];
  } {
    const callId = asString(toolCall['toolCallId']);
    const events = this.#startStep(false);
    const call = this.#callOf(callId);
    merge(call, toolCall);
    this.#called(callId, call, events);
    return { call: describe(callId, call.fields), events };
  }

  /** The end of the turn: open calls stay open, so that the run reports them as failed. */
  finish(reason: FinishReason, response: JsonObject): readonly AgentEvent[] {
    const events: AgentEventBody[] = [];
    if (!this.#isInStep) events.push(...this.#startStep(false));
    const usage = usageOf(response, this.#costUsd);
    events.push({
      type: 'step.finished',
      step: this.#step,
      reason,
      ...(Object.keys(usage).length > 0 && { usage }),
    });
    this.#isInStep = false;
    return events;
  }

  #read(update: JsonObject, isInner: boolean): AgentEventBody[] {
    switch (update['sessionUpdate']) {
      case 'agent_message_chunk':
        return this.#content('text', update, isInner);
      case 'agent_thought_chunk':
        return this.#content('reasoning', update, isInner);
      case 'tool_call':
      case 'tool_call_update':
        return this.#tool(update, isInner);
      case 'plan':
        return [{ type: 'custom', name: 'acp.plan', data: asArray(update['entries']) }];
      case 'usage_update': {
        const { amount, currency } = asObject(update['cost']);
        // The cost of the complete session. Without the one before, that of the turn is unknown.
        const cost = currency === 'USD' ? asNumber(amount) : undefined;
        if (cost !== undefined && this.#costBefore !== undefined)
          this.#costUsd = Math.max(0, cost - this.#costBefore);
        return [custom(update)];
      }
      case 'notice': {
        const { title, description } = update;
        const message = [asString(title), asString(description)].filter(Boolean).join(': ');
        return message ? [{ type: 'status', message }] : [];
      }
      case 'user_message_chunk':
        return []; // a repetition of the prompt
      default:
        return [custom(update)];
    }
  }

  #content(kind: 'text' | 'reasoning', update: JsonObject, isInner: boolean): AgentEventBody[] {
    const content = asObject(update['content']);
    const text = asString(content['text']);
    if (content['type'] === 'text' && text === '') return [];
    const events = this.#startStep(isInner);
    if (content['type'] === 'text') {
      const id = this.#blockId(kind, asString(update['messageId']), isInner);
      events.push({ type: `${kind}.delta`, id, delta: text });
      return events;
    }
    const part = blockPart(content);
    this.#artifacts += 1;
    const artifactId = `${this.#artifactPrefix}/${this.#artifacts}`;
    if (part) events.push({ type: 'artifact', artifactId, parts: [part], last: true });
    return events;
  }

  #blockId(kind: string, message: string, isInner: boolean): string {
    if (isInner) return `inner-${kind}-${message}`;
    if (this.#block?.kind !== kind || this.#block.message !== message) {
      this.#blocks += 1;
      this.#block = { kind, message, id: `${kind}-${this.#blocks}` };
    }
    return this.#block.id;
  }

  #tool(update: JsonObject, isInner: boolean): AgentEventBody[] {
    const callId = asString(update['toolCallId']);
    if (callId === '') return [];
    const known = this.#calls.get(callId);
    if (known?.isClosed) return [];
    const events = known ? [] : this.#startStep(isInner);
    this.#block = undefined;
    const call = this.#callOf(callId);
    merge(call, update);
    const { status = 'pending' } = call.fields;
    if (status === 'pending') {
      const { name } = describe(callId, call.fields);
      if (!known) events.push({ type: 'tool.started', callId, name });
      return events;
    }
    this.#called(callId, call, events);
    const { name } = describe(callId, call.fields);
    if (status === 'completed')
      events.push({ type: 'tool.completed', callId, name, output: outputOf(call.fields) });
    else if (status === 'failed') {
      const error = toolFailure(textOf(call.fields) || 'the tool failed');
      events.push({ type: 'tool.failed', callId, name, error });
    } else {
      if (known && update['content'] !== undefined && update['content'] !== null)
        events.push(progressOf(callId, update));
      return events;
    }
    this.#close(callId, call);
    return events;
  }

  #callOf(callId: string): AcpCall {
    const known = this.#calls.get(callId);
    if (known && !known.isClosed) return known;
    const call = { fields: {}, isCalled: false, isClosed: false };
    this.#calls.set(callId, call);
    this.#open += 1;
    return call;
  }

  #called(callId: string, call: AcpCall, events: AgentEventBody[]): void {
    if (call.isCalled) return;
    call.isCalled = true;
    events.push({ type: 'tool.called', ...describe(callId, call.fields) });
  }

  #close(callId: string, call: AcpCall): void {
    call.isClosed = true;
    call.fields = {};
    this.#open -= 1;
    this.#hadCall = true;
    if (this.#calls.size <= MAX_CALLS) return;
    for (const [id, each] of this.#calls) {
      if (each.isClosed && id !== callId) {
        this.#calls.delete(id);
        return;
      }
    }
  }

  /** Begins a step if none is open, or if all calls of the open one have ended. */
  #startStep(isInner: boolean): AgentEventBody[] {
    if (isInner) return [];
    const events: AgentEventBody[] = [];
    if (this.#isInStep && this.#hadCall && this.#open === 0) {
      events.push({ type: 'step.finished', step: this.#step, reason: 'tool-calls' });
      this.#isInStep = false;
    }
    if (this.#isInStep) return events;
    this.#step += 1;
    this.#isInStep = true;
    this.#hadCall = false;
    this.#block = undefined;
    events.push({ type: 'step.started', step: this.#step });
    return events;
  }
}

/** Adds what an update says. A member that is null or missing has not changed. */
function merge(call: AcpCall, update: JsonObject): void {
  const fields: Record<string, unknown> = { ...call.fields };
  for (const [name, value] of Object.entries(update))
    if (value !== undefined && value !== null) fields[name] = value;
  call.fields = fields;
}

/** Agents that have sub-agents name the call of the sub-agent in their own metadata. */
function pathOf({ _meta }: JsonObject): readonly string[] | undefined {
  const parent = asString(asObject(asObject(_meta)['claudeCode'])['parentToolUseId']);
  return parent === '' ? undefined : [parent];
}

function describe(callId: string, fields: JsonObject): DescribedCall {
  const { name, title, kind, rawInput, locations, _meta } = fields;
  const known = asString(name) || asString(asObject(asObject(_meta)['claudeCode'])['toolName']);
  const group = asString(kind);
  const named = known || (group !== '' && group !== 'other' ? group : asString(title)) || 'tool';
  return { callId, name: named, args: rawInput ?? omitUndefined({ title, locations }) };
}

const outputOf = (fields: JsonObject): unknown => {
  if (fields['rawOutput'] !== undefined) return fields['rawOutput'];
  const content = asObjects(fields['content']);
  return content.every((item) => asObject(item['content'])['type'] === 'text')
    ? textOf(fields)
    : content;
};

/** The text of a call's content; without content, that of its raw output. */
function textOf({ content, rawOutput }: JsonObject): string {
  const text = asObjects(content)
    .map((item) => asString(asObject(item['content'])['text']))
    .filter(Boolean)
    .join('\n');
  if (text !== '' || rawOutput === undefined) return text;
  return typeof rawOutput === 'string' ? rawOutput : JSON.stringify(rawOutput);
}

function progressOf(callId: string, update: JsonObject): AgentEventBody {
  const message = textOf({ content: update['content'] });
  return message === ''
    ? { type: 'tool.progress', callId, data: update['content'] }
    : { type: 'tool.progress', callId, message };
}

function custom(update: JsonObject): AgentEventBody {
  const { sessionUpdate, ...data } = update;
  return { type: 'custom', name: `acp.${asString(sessionUpdate, 'update')}`, data };
}

/** The usage in the response to a prompt, which agents may add, and the cost of the session. */
function usageOf({ usage }: JsonObject, costUsd: number | undefined): Usage {
  const given = asObject(usage);
  return omitUndefined<Usage>({
    inputTokens: asNumber(given['inputTokens']),
    outputTokens: asNumber(given['outputTokens']),
    reasoningTokens: asNumber(given['thoughtTokens']),
    cacheReadTokens: asNumber(given['cachedReadTokens']),
    cacheWriteTokens: asNumber(given['cachedWriteTokens']),
    costUsd,
  });
}
