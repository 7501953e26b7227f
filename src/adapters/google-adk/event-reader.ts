import { DuolaneError } from '../../errors.ts';
import { modelError } from '../../event/retry/model-error.ts';
import type { AgentEvent, Usage } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { omitUndefined, asObjects, asNumber, asObject, asString } from '../../json.ts';
import { textEvents } from '../shared/framework-agent.ts';
import { toolResultText, toolFailure } from '../shared/tool-failure.ts';

/** A call of ADK itself that waits for a person, such as `adk_request_confirmation`. */
export interface Request {
  /** The id with which ADK expects the response. */
  readonly id: string;
  readonly name: string;
  readonly args: JsonObject;
}

interface OpenStep {
  readonly step: number;
  readonly author: string;
  usage: Usage;
  /** The model message is complete: later events belong to another model call. */
  over: boolean;
}

const REQUEST = /^adk_request_/;
const FILTERED = /SAFETY|PROHIBITED|BLOCKLIST|RECITATION|SPII/;

/**
 * Reads the events of a runner as agent events. Text comes as deltas (`partial`) and then again
 * complete. Usage is on every event and the last one of a model call counts, so a step is closed
 * when the next one starts. An event with an error is thrown as a DuolaneError.
 */
export class EventReader {
  readonly #names = new Map<string, string>();
  readonly #branches = new Map<string, OpenStep>();
  readonly #requests: Request[] = [];
  #count = 0;
  #author = '';
  /** The last complete text. */
  answer = '';

  takeRequests(): readonly Request[] {
    return this.#requests.splice(0);
  }

  read(event: JsonObject): readonly AgentEvent[] {
    throwFailure(event);
    const path = asString(event['branch']).split('.').filter(Boolean);
    const parts = asObjects(asObject(event['content'])['parts']);
    const usage = readUsage(asObject(event['usageMetadata']));
    const isAnswer = parts.some((part) => 'text' in part || isCall(part));
    const before = isAnswer ? this.#step(asString(event['author']), path) : [];
    const step = this.#branches.get(path.join('.'));
    if (step && usage) step.usage = usage;
    const texts = step ? this.#texts(parts, step, event['partial'] === true) : [];
    const tools = parts.flatMap((part) => this.#tool(part));
    if (step && (event['finishReason'] !== undefined || parts.some(isResponse))) step.over = true;
    const common = path.length > 0 ? { path } : {};
    return [...before, ...texts, ...tools].map((each) => ({ ...each, ...common }));
  }

  /** Ends the open steps. Call it at the end of the stream. */
  end(): readonly AgentEvent[] {
    return [...this.#branches.keys()].flatMap((branch) => this.#close(branch));
  }

  #step(author: string, path: readonly string[]): readonly AgentEvent[] {
    const branch = path.join('.');
    const open = this.#branches.get(branch);
    if (open && !open.over && open.author === author) return [];
    const closed = this.#close(branch);
    const step: OpenStep = { step: ++this.#count, author, usage: {}, over: false };
    this.#branches.set(branch, step);
    const handed: AgentEvent[] =
      this.#author !== '' && this.#author !== author
        ? [{ type: 'status', message: `Agent: ${author}` }]
        : [];
    this.#author = author;
    return [...closed, ...handed, { type: 'step.started', step: step.step, name: author }];
  }

  #close(branch: string): readonly AgentEvent[] {
    const open = this.#branches.get(branch);
    this.#branches.delete(branch);
    if (!open) return [];
    const path = branch === '' ? {} : { path: branch.split('.') };
    return [{ type: 'step.finished', step: open.step, usage: open.usage, ...path }];
  }

  #texts(
    parts: readonly JsonObject[],
    { step }: OpenStep,
    partial: boolean,
  ): readonly AgentEvent[] {
    const join = (thought: boolean): string =>
      parts
        .filter((part) => (part['thought'] === true) === thought)
        .map((part) => asString(part['text']))
        .join('');
    const text = join(false);
    if (!partial && text !== '') this.answer = text;
    return [
      ...textEvents('reasoning', `${step}:thought`, join(true), partial),
      ...textEvents('text', `${step}:text`, text, partial),
    ];
  }

  #tool(part: JsonObject): readonly AgentEvent[] {
    if (isCall(part)) {
      const { id, name, args } = asObject(part['functionCall']);
      const callId = asString(id);
      this.#names.set(callId, asString(name));
      if (!REQUEST.test(asString(name)))
        return [{ type: 'tool.called', callId, name: asString(name), args: args ?? {} }];
      this.#requests.push({ id: callId, name: asString(name), args: asObject(args) });
      return [];
    }
    if (!isResponse(part)) return [];
    const { id, name, response } = asObject(part['functionResponse']);
    const callId = asString(id);
    if (REQUEST.test(asString(name))) return [];
    const { error, isError, result, content } = asObject(response);
    const common = { callId, name: asString(name) };
    const failed = isError === true || error !== undefined;
    if (failed) {
      const reason = error ?? result ?? toolResultText(content);
      return [{ type: 'tool.failed', ...common, error: toolFailure(reason) }];
    }
    return [{ type: 'tool.completed', ...common, output: result ?? response }];
  }
}

const isCall = (part: JsonObject): boolean => part['functionCall'] !== undefined;
const isResponse = (part: JsonObject): boolean => part['functionResponse'] !== undefined;

/** `errorCode` is the name of an HTTP status, the finish reason of the model, or UNKNOWN_ERROR. */
function throwFailure({ errorCode, errorMessage }: JsonObject): void {
  if (errorCode === undefined && errorMessage === undefined) return;
  const message = asString(errorMessage) || `the model stopped: ${asString(errorCode)}`;
  if (FILTERED.test(asString(errorCode))) throw new DuolaneError('content_filter', message);
  throw modelError({ errorCode, message });
}

function readUsage(usage: JsonObject): Usage | undefined {
  const found = omitUndefined<Usage>({
    inputTokens: asNumber(usage['promptTokenCount']),
    outputTokens: asNumber(usage['candidatesTokenCount']),
    reasoningTokens: asNumber(usage['thoughtsTokenCount']),
    cacheReadTokens: asNumber(usage['cachedContentTokenCount']),
  });
  return Object.keys(found).length > 0 ? found : undefined;
}
