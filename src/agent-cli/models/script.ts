import { DuolaneError } from '../../errors.ts';
import { asString, isObject, type JsonObject } from '../../json.ts';
import { sleep } from '../../stream/abort.ts';
import { httpStatusError } from '../../event/retry/model-error.ts';
import {
  blocksOf,
  type ChatMessage,
  type Model,
  type ModelEvent,
  type ModelRequest,
  type ModelStopReason,
  type TokenUsage,
} from './types.ts';

/**
 * One scripted answer. Its blocks come in the order thinking, text, tools; then `error` or `cut`
 * fails the attempt, after whatever was said.
 */
export interface ScriptAnswer {
  /** A regular expression that the last message must match; without it the answer always fits. */
  readonly when?: string;
  /** May be given any number of times; without it an answer is used once. */
  readonly repeat?: boolean;
  readonly thinking?: string;
  /** `{{last}}` stands for the text of the last message. */
  readonly text?: string;
  readonly tools?: readonly {
    readonly name: string;
    readonly input?: JsonObject;
    readonly id?: string;
  }[];
  /** Into how many pieces the text is cut; one piece per word by default. */
  readonly chunks?: number;
  /** Between the pieces. */
  readonly delayMs?: number;
  /** Before the first. */
  readonly waitMs?: number;
  readonly error?: {
    readonly status: number;
    readonly message?: string;
    readonly retryAfter?: number;
  };
  /** The connection breaks. */
  readonly cut?: boolean;
  readonly stop?: ModelStopReason;
  readonly usage?: Partial<TokenUsage>;
}

/**
 * A model that reads its lines from a list: deterministic, without a network, for tests and demos.
 * Each call takes the first answer left whose `when` fits the last message; none left is an error
 * that says so.
 */
export function scriptModel(name: string, script: unknown): Model {
  const left = answersOf(name, script);
  return {
    name,
    keySource: 'none',
    async *stream(request, { signal }) {
      const last = lastText(request.messages);
      const at = left.findIndex(({ when }) => when === undefined || new RegExp(when).test(last));
      const answer = left[at];
      if (!answer) {
        throw new DuolaneError('invalid', `${name} has no answer left for: ${last.slice(0, 200)}`);
      }
      if (!answer.repeat) left.splice(at, 1);
      yield* play(answer, request, signal);
    },
  };
}

/** Says a scripted answer, in the request's conversation. */
export async function* play(
  answer: ScriptAnswer,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelEvent, void, undefined> {
  if (answer.waitMs) await sleep(answer.waitMs, signal);
  const pause = async (): Promise<void> => {
    if (answer.delayMs) await sleep(answer.delayMs, signal);
    signal.throwIfAborted();
  };
  const silent = answer.text === undefined && !answer.thinking && !answer.tools?.length;
  if (!(silent && (answer.error ?? answer.cut))) yield { type: 'start', model: request.model };
  for (const text of pieces(answer.thinking ?? '', answer.chunks)) {
    await pause();
    yield { type: 'thinking', text };
  }
  if (answer.thinking) yield { type: 'signature', signature: 'c2NyaXB0' };
  const spoken = (answer.text ?? '').replaceAll('{{last}}', () => lastText(request.messages));
  for (const text of pieces(spoken, answer.chunks)) {
    await pause();
    yield { type: 'text', text };
  }
  let count = countCalls(request.messages);
  for (const tool of answer.tools ?? []) {
    await pause();
    yield { type: 'tool_use', id: tool.id ?? `toolu_script_${++count}`, name: tool.name };
    yield { type: 'tool_input', json: JSON.stringify(tool.input ?? {}) };
    yield { type: 'block_end' };
  }
  const { error } = answer;
  if (error) {
    const retryAfter = error.retryAfter === undefined ? null : String(error.retryAfter);
    throw httpStatusError(error.status, error.message ?? 'scripted error', { retryAfter });
  }
  if (answer.cut) throw new DuolaneError('network', 'the connection to the model broke (scripted)');
  yield {
    type: 'stop',
    reason: answer.stop ?? (answer.tools?.length ? 'tool_use' : 'end_turn'),
    usage: {
      input_tokens: Math.ceil(JSON.stringify(request.messages).length / 4),
      output_tokens: Math.ceil((spoken.length + JSON.stringify(answer.tools ?? []).length) / 4),
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      ...answer.usage,
    },
  };
}

/** What a script is matched against: the text of the last message, tool results included. */
export function lastText(messages: readonly ChatMessage[]): string {
  return blocksOf(messages.at(-1)?.content ?? '')
    .map((block) => {
      if (block.type === 'text') return asString(block['text']);
      if (block.type !== 'tool_result') return '';
      const { content } = block;
      if (typeof content === 'string') return content;
      return Array.isArray(content)
        ? content.map((part: unknown) => (isObject(part) ? asString(part['text']) : '')).join('\n')
        : '';
    })
    .filter((text) => text !== '')
    .join('\n');
}

const countCalls = (messages: readonly ChatMessage[]): number =>
  messages.flatMap(({ content }) => blocksOf(content)).filter(({ type }) => type === 'tool_use')
    .length;

function pieces(text: string, chunks: number | undefined): string[] {
  if (text === '') return [];
  if (chunks === undefined) return text.split(/(?<=\S)(?=\s+\S)/);
  const size = Math.ceil(text.length / chunks);
  return Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
    text.slice(i * size, (i + 1) * size),
  );
}

function answersOf(name: string, script: unknown): ScriptAnswer[] {
  const list = isObject(script) ? script['answers'] : script;
  if (!Array.isArray(list) || !list.every(isObject)) {
    throw new DuolaneError(
      'invalid',
      `${name} must be a list of answers, or an object with the list in "answers"`,
    );
  }
  for (const { when } of list) {
    if (when === undefined) continue;
    try {
      new RegExp(asString(when));
    } catch (cause) {
      throw new DuolaneError(
        'invalid',
        `${name}: "when" is no regular expression: ${asString(when)}`,
        {
          cause,
        },
      );
    }
  }
  return list.map((answer) => answer as ScriptAnswer);
}
