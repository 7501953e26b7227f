import { DuolaneError, errorMessage } from '../../errors.ts';
import {
  asArray,
  asObject,
  asString,
  asStrings,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import type { ControlLink } from '../../wire/control-link.ts';
import { uncalledHooks } from '../command-line/unsupported-options.ts';

/** The events at which the CLI can still prevent the guarded action when a hook fails. */
const BLOCKING = [
  'PreToolUse',
  'PostToolUse',
  'PostToolUseFailure',
  'PostToolBatch',
  'UserPromptSubmit',
  'Stop',
] as const;

const REPORTING = ['SessionStart', 'SessionEnd', 'Notification'] as const;

/** The events that this CLI fires. A hook on another event is never called. */
export type FiredHookEvent = (typeof BLOCKING | typeof REPORTING)[number];
const FIRED: readonly FiredHookEvent[] = [...BLOCKING, ...REPORTING];

interface Matcher {
  readonly pattern: string;
  readonly matches: (subject: string) => boolean;
  readonly callbacks: readonly string[];
  readonly timeoutMs: number;
  readonly blocksOnFailure: boolean;
}

const DEFAULT_TIMEOUT_MS = 60_000;
/**
 * 24 days, the longest time of a timer in Node. A longer one fires immediately: the hook would time
 * out before the host could answer, and a hook that does not block on failure would be skipped.
 */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** The combined result of all callbacks of an event: the strictest decision wins. */
export interface HookOutcome {
  readonly decision?: 'allow' | 'deny' | 'ask';
  /** The reason of the decision that won. */
  readonly reason: string;
  readonly updatedInput?: JsonObject;
  readonly updatedOutput?: unknown;
  /** Texts that the model gets with the next message. */
  readonly context: readonly string[];
  /** Why the turn must end: a callback returned `continue: false`. */
  readonly stop?: string;
  /**
   * Which callback failed or timed out, if its registration says that a failure blocks. Every
   * caller of `fire` must then prevent the action that the hook guards.
   */
  readonly unanswered?: string;
}

const SILENT: HookOutcome = { reason: '', context: [] };

interface HookDispatcherOptions {
  readonly lane: ControlLink;
  /** The fields that every hook input has. */
  readonly base: () => JsonObject;
  /** Reports a callback that failed or timed out; `why` continues the text "<event> hook". */
  readonly onFailure: (event: FiredHookEvent, why: string) => void;
}

/** Calls the hook callbacks of the host through the control lane. */
export class HookDispatcher {
  readonly #options: HookDispatcherOptions;
  #matchers = new Map<string, readonly Matcher[]>();

  constructor(options: HookDispatcherOptions) {
    this.#options = options;
  }

  /** Why these hooks cannot be registered: one that guards something would never be called. */
  refusal(hooks: unknown): string | undefined {
    const { guards } = uncalledHooks(hooks, FIRED);
    if (guards.length > 0)
      return `hooks on ${guards.join(', ')} are not supported by duolane-agent; available: ${FIRED.join(', ')}`;
    const invalid = Object.entries(asObject(hooks))
      .flatMap(([event, matchers]) => asArray(matchers).map((one) => matcherProblem(event, one)))
      .find((problem) => problem !== undefined);
    if (invalid !== undefined) return invalid;
    const events = Object.entries(asObject(hooks))
      .filter(([, matchers]) =>
        asArray(matchers).some((one) => asObject(one)['onFailure'] === 'block'),
      )
      .map(([event]) => event)
      .filter((event) => !BLOCKING.some((blocking) => blocking === event));
    if (events.length === 0) return undefined;
    return `onFailure: 'block' is not supported for hooks on ${events.join(', ')}; available: ${BLOCKING.join(', ')}`;
  }

  /** The events of these hooks that this CLI never fires. */
  uncalled(hooks: unknown): readonly string[] {
    return uncalledHooks(hooks, FIRED).others;
  }

  /** Registers `initialize.hooks` in place of earlier ones; returns the number of matchers. */
  register(hooks: unknown): number {
    const entries = Object.entries(asObject(hooks)).map(
      ([event, matchers]) => [event, asArray(matchers).filter(isObject).map(toMatcher)] as const,
    );
    this.#matchers = new Map(entries);
    return entries.reduce((sum, [, matchers]) => sum + matchers.length, 0);
  }

  /**
   * Calls every callback whose matcher fits, all at the same time. Rejects only with the signal's
   * reason: a callback that fails is reported and does not count, unless its registration says that
   * a failure blocks.
   */
  async fire(
    event: FiredHookEvent,
    input: JsonObject,
    {
      signal,
      toolUseId,
      subject = '',
    }: { readonly signal: AbortSignal; readonly toolUseId: string; readonly subject?: string },
  ): Promise<HookOutcome> {
    const matchers = this.#fitting(event, subject);
    if (matchers.length === 0) return SILENT;
    const fields = this.#inputOf(event, input);
    const answers = await Promise.all(
      matchers.flatMap((matcher) =>
        matcher.callbacks.map((callback) =>
          this.#ask(
            event,
            matcher,
            { callback_id: callback, input: fields, tool_use_id: toolUseId },
            signal,
          ),
        ),
      ),
    );
    return combine(answers);
  }

  /**
   * Sends an event to every callback whose matcher fits, without waiting for responses: the host
   * has closed stdin and cannot respond any more.
   */
  notify(event: FiredHookEvent, input: JsonObject): void {
    const fields = this.#inputOf(event, input);
    for (const { callbacks } of this.#fitting(event, ''))
      for (const callback_id of callbacks)
        this.#options.lane.notify({
          subtype: 'hook_callback',
          callback_id,
          input: fields,
          tool_use_id: '',
        });
  }

  /** The response to `get_hooks_listing`. */
  get listing(): JsonObject {
    const hooks = [...this.#matchers].flatMap(([event, matchers]) =>
      matchers.map(({ pattern, callbacks }) => ({
        event,
        matcher: pattern,
        callbacks: callbacks.length,
      })),
    );
    const events = [...new Set(hooks.map(({ event }) => event))];
    return { events, hooks, eventCatalog: FIRED.map((name) => ({ name })) };
  }

  #fitting(event: FiredHookEvent, subject: string): readonly Matcher[] {
    return (this.#matchers.get(event) ?? []).filter(({ matches }) => matches(subject));
  }

  #inputOf(event: FiredHookEvent, input: JsonObject): JsonObject {
    return { ...this.#options.base(), hook_event_name: event, ...input };
  }

  async #ask(
    event: FiredHookEvent,
    matcher: Matcher,
    fields: JsonObject,
    signal: AbortSignal,
  ): Promise<HookOutcome> {
    const limit = AbortSignal.timeout(matcher.timeoutMs);
    try {
      const request = { subtype: 'hook_callback', ...fields };
      const answer = await this.#options.lane.request(request, {
        signal: AbortSignal.any([signal, limit]),
      });
      return readAnswer(answer);
    } catch (reason) {
      signal.throwIfAborted();
      const error = DuolaneError.from(reason);
      const why = limit.aborted
        ? `timed out after ${matcher.timeoutMs} ms: no response of the host`
        : `failed: ${error.message}`;
      // A PreToolUse hook that times out always blocks its call, as with the vendor's CLI.
      const blocks = matcher.blocksOnFailure || (limit.aborted && event === 'PreToolUse');
      if (!limit.aborted || !blocks) this.#options.onFailure(event, why);
      return blocks ? { ...SILENT, unanswered: `${event} hook ${why}` } : SILENT;
    }
  }
}

function toMatcher(value: JsonObject): Matcher {
  const { matcher, timeout } = value;
  const pattern = asString(matcher);
  return {
    pattern,
    matches: matching(pattern),
    callbacks: asStrings(value['hookCallbackIds']),
    timeoutMs:
      typeof timeout === 'number' && timeout > 0
        ? Math.min(Math.ceil(timeout * 1000), MAX_TIMEOUT_MS)
        : DEFAULT_TIMEOUT_MS,
    blocksOnFailure: value['onFailure'] === 'block',
  };
}

/**
 * Which subjects a matcher means, as with the official CLI: names separated by `|` or `,`, or, with
 * any other sign, a regular expression that may match a part (`^mcp__`). Throws a SyntaxError for
 * an invalid one; `refusal` has refused it before.
 */
function matching(pattern: string): (subject: string) => boolean {
  if (pattern === '' || pattern === '*') return () => true;
  if (/^[\w ,|-]+$/.test(pattern)) {
    const names = new Set(pattern.split(/[,|]/).map((name) => name.trim()));
    return (subject) => names.has(subject);
  }
  const regexp = new RegExp(pattern);
  return (subject) => regexp.test(subject);
}

/** Why the matcher of a hook cannot be used: the hook would never be called. */
function matcherProblem(event: string, value: unknown): string | undefined {
  const pattern = asString(asObject(value)['matcher']);
  try {
    matching(pattern);
    return undefined;
  } catch (cause) {
    return `invalid matcher "${pattern}" of a ${event} hook: expected names or a regular expression: ${errorMessage(cause)}`;
  }
}

/** The decision for each value that a hook may return; `defer` decides nothing. */
const DECISIONS: ReadonlyMap<unknown, HookOutcome['decision']> = new Map([
  ['deny', 'deny'],
  ['block', 'deny'],
  ['allow', 'allow'],
  ['approve', 'allow'],
  ['ask', 'ask'],
  ['defer', undefined],
  [undefined, undefined],
]);

/** Parses the result of a callback. Throws `malformed`: an invalid result counts as a failure. */
function readAnswer(given: unknown): HookOutcome {
  if (given !== undefined && given !== null && !isObject(given))
    throw new DuolaneError('malformed', `the hook returned ${typeof given}: expected an object`);
  const answer = asObject(given);
  const own = asObject(answer['hookSpecificOutput']);
  const returned = own['permissionDecision'] ?? answer['decision'] ?? undefined;
  if (!DECISIONS.has(returned))
    throw new DuolaneError(
      'malformed',
      `the hook returned the decision ${JSON.stringify(returned)}: expected allow, deny or ask`,
    );
  const context = asString(own['additionalContext']);
  const { updatedInput, updatedToolOutput, updatedMCPToolOutput = updatedToolOutput } = own;
  const stop = asString(answer['stopReason'], 'a hook ended the turn');
  return omitUndefined<HookOutcome>({
    decision: DECISIONS.get(returned),
    reason: asString(own['permissionDecisionReason'], asString(answer['reason'])),
    updatedInput: isObject(updatedInput) ? updatedInput : undefined,
    updatedOutput: updatedMCPToolOutput,
    context: context === '' ? [] : [context],
    stop: answer['continue'] === false ? stop : undefined,
  });
}

const STRICTNESS = { deny: 3, ask: 2, allow: 1 } as const;

/** Combines results: deny wins over ask, ask over allow; later changes of input and output win. */
export function combine(answers: readonly HookOutcome[]): HookOutcome {
  const strict = (outcome: HookOutcome): number =>
    outcome.decision ? STRICTNESS[outcome.decision] : 0;
  return answers.reduce((sum, next) => {
    const winner = strict(next) > strict(sum) ? next : sum;
    return {
      ...sum,
      ...next,
      ...(winner.decision && { decision: winner.decision }),
      reason: winner.reason,
      context: [...sum.context, ...next.context],
    };
  }, SILENT);
}
