import { DuolaneError } from '../../errors.ts';
import { asString, isObject, type JsonObject } from '../../json.ts';
import { sleep } from '../../stream/abort.ts';
import { httpStatusError } from '../../event/retry/model-error.ts';
import {
  blocksOf,
  type ChatMessage,
  contentText,
  type Model,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
  type ModelStopReason,
  type TokenUsage,
} from './types.ts';

/**
 * One scripted message of the model. Its blocks are streamed in the order thinking, text, tools;
 * then `error` or `cut` fails the attempt.
 */
export interface ScriptAnswer {
  /**
   * A regular expression that the last message must match; without it the answer always matches.
   */
  readonly when?: string;
  /** The answer may be used any number of times; by default it is used once. */
  readonly repeat?: boolean;
  readonly thinking?: string;
  /** `{{last}}` stands for the text of the last message. */
  readonly text?: string;
  readonly tools?: readonly {
    readonly name: string;
    readonly input?: JsonObject;
    readonly id?: string;
  }[];
  /** The number of pieces of the text; by default one piece per word. */
  readonly chunks?: number;
  /** The delay between pieces. */
  readonly delayMs?: number;
  /** The delay before the first piece. */
  readonly waitMs?: number;
  readonly error?: {
    readonly status: number;
    readonly message?: string;
    readonly retryAfter?: number;
  };
  /** The connection is lost after the blocks. */
  readonly cut?: boolean;
  readonly stop?: ModelStopReason;
  readonly usage?: Partial<TokenUsage>;
}

/**
 * A deterministic model without a network, for tests and demos. Each request takes the first unused
 * answer whose `when` matches the last message, and fails without one.
 */
export function scriptModel(name: string, script: unknown): Model {
  const unused = answersOf(name, script);
  return {
    name,
    keySource: 'none',
    async *stream(request, { signal }) {
      const last = lastText(request.messages);
      const at = unused.findIndex(({ when }) => when === undefined || new RegExp(when).test(last));
      const answer = unused[at];
      if (!answer) {
        throw new DuolaneError(
          'invalid',
          `script "${name}" has no unused answer that matches "${last.slice(0, 200)}"; add one`,
        );
      }
      if (!answer.repeat) unused.splice(at, 1);
      yield* play(answer, request, signal);
    },
  };
}

/** Streams a scripted answer to a request. */
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
  const fullText = (answer.text ?? '').replaceAll('{{last}}', () => lastText(request.messages));
  for (const text of pieces(fullText, answer.chunks)) {
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
    const { retryAfter, status, message = 'scripted error' } = error;
    throw httpStatusError(status, message, (name) =>
      name === 'retry-after' && retryAfter !== undefined ? String(retryAfter) : undefined,
    );
  }
  if (answer.cut)
    throw new DuolaneError('network', 'the connection to the model was lost (scripted)');
  yield {
    type: 'stop',
    reason: answer.stop ?? (answer.tools?.length ? 'tool_use' : 'end_turn'),
    usage: {
      ...NO_USAGE,
      input_tokens: Math.ceil(JSON.stringify(request.messages).length / 4),
      output_tokens: Math.ceil((fullText.length + JSON.stringify(answer.tools ?? []).length) / 4),
      ...answer.usage,
    },
  };
}

/** The text of the last message, including tool results. A script is matched with it. */
export function lastText(messages: readonly ChatMessage[]): string {
  return blocksOf(messages.at(-1)?.content ?? '')
    .map((block) => {
      if (block.type === 'text') return asString(block['text']);
      return block.type === 'tool_result' ? contentText(block['content']) : '';
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
      `invalid script "${name}": expected a list of answers, or an object with the list in "answers"`,
    );
  }
  for (const { when } of list) {
    if (when === undefined) continue;
    try {
      new RegExp(asString(when));
    } catch (cause) {
      throw new DuolaneError(
        'invalid',
        `invalid "when" in script "${name}": expected a regular expression, not "${asString(when)}"`,
        { cause },
      );
    }
  }
  return [...(list as readonly ScriptAnswer[])];
}
