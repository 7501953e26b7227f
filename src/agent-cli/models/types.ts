import type { JsonObject } from '../../json.ts';
import { asString } from '../../json.ts';

/** A block of a conversation, in the spelling of the Messages API; unknown kinds are passed on. */
export interface Block extends JsonObject {
  readonly type: string;
}

/** One side's contribution. `content` as text is the same as one text block. */
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
  /** Without the driver's prefix: what the provider knows. */
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

export type ModelStopReason = 'end_turn' | 'tool_use' | 'max_tokens' | 'stop_sequence' | 'refusal';

/**
 * What a model says while it answers. Blocks follow each other: `text`, `thinking` and `tool_use`
 * open one, and so close the one before; `block_end` closes without opening. `stop` is last, and a
 * stream that ends without it was cut.
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
  | { readonly type: 'tool_use'; readonly id: string; readonly name: string }
  | { readonly type: 'tool_input'; readonly json: string }
  | { readonly type: 'block_end' }
  | { readonly type: 'stop'; readonly reason: ModelStopReason; readonly usage: TokenUsage };

/**
 * A model behind any provider. `stream` makes one attempt: no retry, and it throws a `DuolaneError`
 * whose code, `status` and `retryAfterMs` say what kind of failure it was. Aborting stops the
 * request; leaving the loop does too.
 */
export interface Model {
  /** As it stands in `system/init`, prefix included. */
  readonly name: string;
  /** Where the key came from, for `apiKeySource`; `none` without one. */
  readonly keySource: string;
  stream(
    request: ModelRequest,
    options: { readonly signal: AbortSignal },
  ): AsyncIterable<ModelEvent>;
}

/** The blocks of a message, whichever way its content was written. */
export const blocksOf = (content: string | readonly Block[]): readonly Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content;

/** The readable text of some blocks, joined. */
export const blocksText = (content: string | readonly Block[]): string =>
  blocksOf(content)
    .map((block) => (block.type === 'text' ? asString(block['text']) : ''))
    .filter((text) => text !== '')
    .join('\n');
