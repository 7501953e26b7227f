import { asArray, asObject, asString, type JsonObject } from '../../json.ts';

/** A content block in the form of the Messages API. Unknown types are passed on. */
export interface Block extends JsonObject {
  readonly type: string;
}

/** One message of the history. A string as `content` means one text block. */
export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly Block[];
}

export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly input_schema: JsonObject;
}

export interface ModelRequest {
  /** The model id of the provider, without the prefix of the driver. */
  readonly model: string;
  readonly system: string;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ToolSpec[];
  readonly maxTokens: number;
  /** Undefined: the model decides. 0: no thinking. */
  readonly thinkingTokens?: number | undefined;
  readonly effort?: string | undefined;
}

export interface TokenUsage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_creation_input_tokens: number;
  readonly cache_read_input_tokens: number;
}

export const NO_USAGE: TokenUsage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
};

/** The usage of providers that include cached tokens in the input, and report no cache writes. */
export const usageWithCached = (input: number, output: number, cached: number): TokenUsage => ({
  ...NO_USAGE,
  input_tokens: input - cached,
  output_tokens: output,
  cache_read_input_tokens: cached,
});

export type ModelStopReason = 'end_turn' | 'tool_use' | 'max_tokens' | 'stop_sequence' | 'refusal';

/**
 * An event of a model's stream. Blocks do not overlap: `text`, `thinking` and `tool_use` open a
 * block and close the one before, `redacted_thinking` is a complete block, `block_end` only closes.
 * `stop` is the last event; a stream without it is incomplete.
 */
export type ModelEvent =
  | {
      readonly type: 'start';
      readonly id?: string;
      readonly model?: string;
      readonly usage?: TokenUsage;
    }
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'thinking'; readonly text: string }
  | { readonly type: 'signature'; readonly signature: string }
  /** A complete block that only the provider can read; the next request must contain it. */
  | { readonly type: 'redacted_thinking'; readonly data: string }
  | { readonly type: 'tool_use'; readonly id: string; readonly name: string }
  | { readonly type: 'tool_input'; readonly json: string }
  | { readonly type: 'block_end' }
  | { readonly type: 'stop'; readonly reason: ModelStopReason; readonly usage: TokenUsage };

/**
 * A model of any provider. `stream` makes one attempt without retries. It throws a `DuolaneError`
 * whose `code`, `status` and `retryAfterMs` describe the failure. Aborting the signal, or breaking
 * out of the loop, ends the request.
 */
export interface Model {
  /** The name with the prefix of the driver, as in `system/init`. */
  readonly name: string;
  /** The source of the API key, for `apiKeySource`; `none` without a key. */
  readonly keySource: string;
  stream(
    request: ModelRequest,
    options: { readonly signal: AbortSignal },
  ): AsyncIterable<ModelEvent>;
}

/** The content of a message as blocks. */
export const blocksOf = (content: string | readonly Block[]): readonly Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content;

/**
 * The text of a tool result, whose content is text or a list of parts. A part without text, such as
 * an image, becomes an empty line.
 */
export const contentText = (content: unknown): string =>
  asString(
    content,
    asArray(content)
      .map((part) => asString(asObject(part)['text']))
      .join('\n'),
  );

/** The text of all text blocks, joined by new lines. */
export const blocksText = (content: string | readonly Block[]): string =>
  blocksOf(content)
    .map((block) => (block.type === 'text' ? asString(block['text']) : ''))
    .filter((text) => text !== '')
    .join('\n');
