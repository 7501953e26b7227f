import { DuolaneError } from '../../errors.ts';
import { MessageBuilder } from './message-builder.ts';
import { assistantMessage, recordSyntheticMessage, streamEvent } from './sdk-messages.ts';
import { type Attempt, type Retry, streamWithRetry } from '../models/retry.ts';
import type { Block, ModelEvent, ModelRequest } from '../models/types.ts';
import { asObject, asString, type JsonObject } from '../../json.ts';
import type { CliSession } from '../session/cli-session.ts';
import { costOf } from '../command-line/settings.ts';
import type { AgentTool } from '../tools/types.ts';
import type { TurnState } from './turn-state.ts';
import { raceAbort } from '../../stream/abort.ts';

const MAX_TOKENS = 32_000;
const INTERRUPTED = '[Request interrupted by user]';

/** The name of an error in `system/api_retry` and in a failed message. */
export function errorName({ code, status }: DuolaneError): string {
  if (code === 'rate_limited') return 'rate_limit';
  if (code === 'overloaded') return 'overloaded';
  if (code === 'unauthorized') return 'authentication_failed';
  if (code === 'not_found') return 'model_not_found';
  if (code === 'server') return 'server_error';
  if (code === 'invalid' || code === 'too_large') return 'invalid_request';
  return status === undefined ? 'unknown' : 'server_error';
}

interface ModelStepOptions {
  readonly tools: ReadonlyMap<string, AgentTool>;
  readonly onCall: (call: Block) => void;
  /** The message is withdrawn: its calls so far are void. */
  readonly onWithdraw: () => void;
  readonly callsBegun: () => boolean;
}

/**
 * One model call: streams the message to the host, one `assistant` line per finished block, and
 * passes finished tool calls to `onCall`. Returns the complete message.
 *
 * A failed attempt is withdrawn before the next one: its raw events end with `abandoned_blocks`,
 * and `system/api_retry` has `discard` with the ids of the void lines. An attempt is not repeated
 * once one of its tool calls has started: its finished blocks are the message then. If the model
 * stays overloaded or does not exist, `--fallback-model` replaces it for the rest of the session.
 * Throws the last failure; after an abort, sends the text so far to the host and throws the
 * signal's reason.
 */
export class ModelStep {
  readonly #session: CliSession;
  readonly #turn: TurnState;
  readonly #options: ModelStepOptions;
  #answer: MessageBuilder;
  /** The ids of the `assistant` lines of this message, and those not yet in the transcript. */
  #lines: string[] = [];
  #unsaved: { readonly message: JsonObject; readonly uuid: string }[] = [];
  #attempts = 0;
  #sentAt = 0;
  #first = true;

  constructor(session: CliSession, turn: TurnState, options: ModelStepOptions) {
    this.#session = session;
    this.#turn = turn;
    this.#options = options;
    this.#answer = this.#newAnswer();
  }

  async run(): Promise<MessageBuilder> {
    const { choices, settings } = this.#session.parts;
    const { signal } = this.#turn;
    const begun = performance.now();
    this.#turn.steps++;
    if (this.#session.parts.flags.partialMessages) {
      this.#session.emit({ type: 'system', subtype: 'status', status: 'requesting' });
    }
    try {
      await this.#stream().catch(async (reason: unknown) => {
        if (signal.aborted || !(await this.#fallBack(DuolaneError.from(reason)))) throw reason;
        await this.#stream();
      });
      this.#save();
      return this.#answer;
    } catch (reason) {
      if (signal.aborted) this.#interrupted();
      else if (this.#options.callsBegun()) return this.#keepFinished(DuolaneError.from(reason));
      else this.#abandon();
      throw reason;
    } finally {
      this.#turn.apiMs += performance.now() - begun;
      const { usage } = this.#answer;
      const price = settings.prices[choices.model.id] ?? settings.prices[choices.model.model.name];
      this.#turn.addUsage(usage, costOf(usage, price));
    }
  }

  async #stream(): Promise<void> {
    const { choices, settings } = this.#session.parts;
    const { signal } = this.#turn;
    const events = streamWithRetry(choices.model.model, this.#request(), {
      signal,
      policy: settings.retry,
      mayRetry: () => !this.#options.callsBegun(),
    });
    for await (const event of events) {
      if (event.type === 'attempt') this.#attempt(event);
      else if (event.type === 'retry') this.#withdraw(event);
      else this.#receive(event);
      // A host that does not read stdout can still interrupt the wait.
      await raceAbort(this.#session.parts.drained(), signal);
    }
  }

  /** Switches to the fallback model, if the error permits it. Returns whether it did. */
  async #fallBack(error: DuolaneError): Promise<boolean> {
    const { fallback, choices, settings } = this.#session.parts;
    const gone = error.code === 'overloaded' || error.code === 'not_found';
    if (!fallback || !gone || this.#options.callsBegun()) return false;
    const chosen = await fallback();
    const [from_model, to_model] = [choices.model.model.name, chosen.model.name];
    if (from_model === to_model) return false;
    choices.model = chosen;
    const { maxRetries } = settings.retry;
    this.#withdraw({ type: 'retry', attempt: this.#attempts, maxRetries, delayMs: 0, error });
    const text = `Model ${from_model} is unavailable (${error.message}); falling back to ${to_model}.`;
    this.#session.emitInfo(text, { tag: 'model_fallback', from_model, to_model });
    return true;
  }

  #newAnswer(): MessageBuilder {
    return new MessageBuilder(this.#session.parts.choices.model.model.name);
  }

  #request(): ModelRequest {
    const { choices, history } = this.#session.parts;
    return {
      model: choices.model.id,
      system: choices.systemPrompt,
      messages: history.messages(),
      tools: [...this.#options.tools.values()].map(({ spec }) => spec),
      maxTokens: MAX_TOKENS,
      thinkingTokens: choices.thinkingTokens,
      effort: choices.effort,
    };
  }

  #attempt({ attempt }: Attempt): void {
    this.#attempts = attempt;
    this.#sentAt = performance.now();
    this.#turn.requestMs ??= this.#turn.now();
  }

  #receive(given: ModelEvent): void {
    const event = this.#named(given);
    if (event.type === 'text' && event.text !== '') {
      this.#turn.firstTokenMs ??= this.#turn.now();
      this.#turn.firstTokenOfCallMs ??= Math.round(performance.now() - this.#sentAt);
    }
    for (const part of this.#answer.receive(event)) {
      // No attempt follows the end of a message. It is saved first: a host that has the end of a
      // message finds the message in the transcript.
      if (part.type === 'event' && part.event['type'] === 'message_stop') this.#save();
      if (part.type === 'event') this.#raw(part.event);
      else this.#finished(part.block);
    }
    if (event.type === 'stop') this.#turn.stopReason = event.reason;
  }

  /** The event with ids that no other call and no other message has. */
  #named(event: ModelEvent): ModelEvent {
    const { history } = this.#session.parts;
    if (event.type === 'tool_use') return { ...event, id: history.nameCall(event.id) };
    if (event.type !== 'start' || event.id === undefined) return event;
    return { ...event, id: history.nameMessage(event.id) };
  }

  #raw(event: JsonObject, extra: JsonObject = {}): void {
    if (!this.#session.parts.flags.partialMessages) return;
    const ttft = this.#first ? { ttft_ms: Math.round(performance.now() - this.#sentAt) } : {};
    this.#first = false;
    this.#session.emit(streamEvent(this.#answer, event, { ...ttft, ...extra }));
  }

  #finished(block: Block, extra: JsonObject = {}): void {
    const { history } = this.#session.parts;
    const line = assistantMessage(
      this.#session,
      this.#turn,
      this.#answer,
      block,
      this.#options.tools,
    );
    const uuid = this.#session.emit({ ...line, ...extra });
    this.#lines.push(uuid);
    this.#unsaved.push({ message: asObject(line['message']), uuid });
    history.addAnswer(this.#answer.id, block);
    if (block.type === 'text') this.#turn.lastText = asString(block['text']);
    if (block.type === 'tool_use') this.#options.onCall(block);
    // A message is final once a call has started. It must be saved before the call has effects.
    if (this.#options.callsBegun()) this.#save();
  }

  #save(): void {
    this.#session.parts.transcript.append('assistant', this.#unsaved.splice(0));
  }

  /** Removes a withdrawn message from the history and ends its raw events. */
  #abandon(): void {
    this.#session.parts.history.dropAnswer(this.#answer.id);
    this.#options.onWithdraw();
    this.#unsaved = [];
    if (this.#answer.started) this.#endRaw(this.#answer.abort().events, 0);
  }

  /** Writes the last raw events of a message whose blocks from `index` on are void. */
  #endRaw(events: readonly JsonObject[], index: number): void {
    const abandoned = { api_message_id: this.#answer.id, from_block_index: index };
    for (const event of events) {
      this.#raw(event, event['type'] === 'message_stop' ? { abandoned_blocks: abandoned } : {});
    }
  }

  #withdraw({ attempt, maxRetries, delayMs, error }: Retry): void {
    const discard = this.#answer.started;
    this.#abandon();
    this.#session.emit({
      type: 'system',
      subtype: 'api_retry',
      attempt,
      max_retries: maxRetries,
      retry_delay_ms: delayMs,
      error_status: error.status ?? null,
      error: errorName(error),
      discard,
      ...(this.#lines.length > 0 && { discarded_uuids: this.#lines }),
    });
    this.#lines = [];
    this.#turn.lastText = '';
    this.#answer = this.#newAnswer();
    this.#first = true;
  }

  /** Ends the message after a failure, with its finished blocks: a call has started already. */
  #keepFinished(error: DuolaneError): MessageBuilder {
    for (const event of this.#answer.abort().events) this.#raw(event);
    this.#session.emitInfo(
      `The model message is incomplete (${error.message}); its finished tool calls are kept.`,
    );
    this.#turn.stopReason = 'tool_use';
    this.#save();
    return this.#answer;
  }

  #interrupted(): void {
    const { block, events } = this.#answer.abort();
    if (block) this.#finished(block, { aborted: true });
    this.#save();
    if (this.#turn.interrupted?.by === 'user')
      recordSyntheticMessage(this.#session, this.#turn, INTERRUPTED);
    this.#endRaw(events, this.#answer.blocks.length);
  }
}
