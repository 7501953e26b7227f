import { DuolaneError } from '../../errors.ts';
import { asArray, asObject, asString, asStrings, isObject, type JsonObject } from '../../json.ts';
import type { ControlLink } from '../../wire/control-link.ts';
import { uncalledHooks } from '../command-line/unsupported-options.ts';

/** The events that this CLI fires; others may be registered and have no effect. */
export type FiredHookEvent = (typeof FIRED)[number];

const FIRED = [
  'PreToolUse',
  'PostToolUse',
  'PostToolUseFailure',
  'PostToolBatch',
  'UserPromptSubmit',
  'Stop',
  'SessionStart',
  'SessionEnd',
  'Notification',
] as const;

/** The events at which a hook that fails can still prevent what it guards. */
const BLOCKING: ReadonlySet<string> = new Set<FiredHookEvent>([
  'PreToolUse',
  'PostToolUse',
  'PostToolUseFailure',
  'PostToolBatch',
  'UserPromptSubmit',
  'Stop',
]);

interface Matcher {
  readonly pattern: string;
  readonly matches: (subject: string) => boolean;
  readonly callbacks: readonly string[];
  readonly timeoutMs: number;
  readonly blocksOnFailure: boolean;
}

const DEFAULT_TIMEOUT_MS = 60_000;
/**
 * 24 days. A timer with a longer time runs out at once: a hook that blocks would be passed by, as if
 * it had not answered.
 */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** What the callbacks of one event said, as one answer: the strictest word wins. */
export interface HookOutcome {
  readonly decision?: 'allow' | 'deny' | 'ask';
  /** Why: of the word that won. */
  readonly reason: string;
  readonly updatedInput?: JsonObject;
  readonly updatedOutput?: unknown;
  /** Told to the model with what comes next. */
  readonly context: readonly string[];
  /** Ends the turn: `continue: false`. */
  readonly stop?: string;
  /**
   * A callback failed or timed out and its registration says that this blocks. Every caller of
   * `fire` must then prevent what the hook guards.
   */
  readonly unanswered?: string;
}

const SILENT: HookOutcome = { reason: '', context: [] };

/** The callbacks that the host registered, asked through the control lane. */
export class HookDispatcher {
  readonly #lane: ControlLink;
  readonly #base: () => JsonObject;
  readonly #onFailure: (event: FiredHookEvent, why: string) => void;
  #matchers = new Map<string, readonly Matcher[]>();

  constructor(options: {
    readonly lane: ControlLink;
    /** The fields that every hook input has. */
    readonly base: () => JsonObject;
    /** A callback failed or timed out; `why` follows the words "<event> hook". */
    readonly onFailure: (event: FiredHookEvent, why: string) => void;
  }) {
    this.#lane = options.lane;
    this.#base = options.base;
    this.#onFailure = options.onFailure;
  }

  /** Why these hooks cannot be registered: one guards what this CLI does not ask it about. */
  refusal(hooks: unknown): string | undefined {
    const { guards } = uncalledHooks(hooks, FIRED);
    if (guards.length > 0)
      return `hooks on ${guards.join(', ')} are not supported by duolane-agent; available: ${FIRED.join(', ')}`;
    const events = Object.entries(asObject(hooks))
      .filter(([, matchers]) =>
        asArray(matchers).some((one) => asObject(one)['onFailure'] === 'block'),
      )
      .map(([event]) => event)
      .filter((event) => !BLOCKING.has(event));
    if (events.length === 0) return undefined;
    return `onFailure: 'block' is not supported for hooks on ${events.join(', ')}; available: ${[...BLOCKING].join(', ')}`;
  }

  /** Events of these hooks that never happen here. */
  uncalled(hooks: unknown): readonly string[] {
    return uncalledHooks(hooks, FIRED).others;
  }

  /** The number of matchers taken from `initialize.hooks`; replaces earlier ones. */
  register(hooks: unknown): number {
    const entries = Object.entries(asObject(hooks)).map(
      ([event, matchers]) => [event, asArray(matchers).filter(isObject).map(toMatcher)] as const,
    );
    this.#matchers = new Map(entries);
    return entries.reduce((sum, [, matchers]) => sum + matchers.length, 0);
  }

  has(event: FiredHookEvent): boolean {
    return this.#matchers.has(event);
  }

  /**
   * Asks every callback whose matcher fits, all at once. Never rejects but for the signal: a
   * callback that fails is reported and has no opinion, unless it was registered to block then.
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

  /** Tells every callback whose matcher fits, and waits for none: the host can no longer answer. */
  tell(event: FiredHookEvent, input: JsonObject): void {
    const fields = this.#inputOf(event, input);
    for (const { callbacks } of this.#fitting(event, ''))
      for (const callback_id of callbacks)
        this.#lane.notify({
          subtype: 'hook_callback',
          callback_id,
          input: fields,
          tool_use_id: '',
        });
  }

  /** What is registered, for a host that asks. */
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
    return { ...this.#base(), hook_event_name: event, ...input };
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
      const answer = await this.#lane.request(request, {
        signal: AbortSignal.any([signal, limit]),
      });
      return readAnswer(answer);
    } catch (reason) {
      signal.throwIfAborted();
      const error = DuolaneError.from(reason);
      const why = limit.aborted
        ? `did not answer within ${matcher.timeoutMs / 1000} s`
        : `failed: ${error.message}`;
      // A PreToolUse hook that times out always blocks its call, as with the vendor's CLI.
      const blocks = matcher.blocksOnFailure || (limit.aborted && event === 'PreToolUse');
      if (!limit.aborted || !blocks) this.#onFailure(event, why);
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

function matching(pattern: string): (subject: string) => boolean {
  if (pattern === '' || pattern === '*') return () => true;
  try {
    const regexp = new RegExp(`^(?:${pattern})$`);
    return (subject) => regexp.test(subject);
  } catch {
    // A matcher that is not a regular expression is a plain name.
    return (subject) => subject === pattern;
  }
}

/** What each word of a hook decides; `defer` has no opinion. */
const DECISIONS: ReadonlyMap<unknown, HookOutcome['decision']> = new Map([
  ['deny', 'deny'],
  ['block', 'deny'],
  ['allow', 'allow'],
  ['approve', 'allow'],
  ['ask', 'ask'],
  ['defer', undefined],
  [undefined, undefined],
]);

/** Throws `malformed` for what is no answer: a hook that was misunderstood has failed. */
function readAnswer(given: unknown): HookOutcome {
  if (given !== undefined && given !== null && !isObject(given))
    throw new DuolaneError('malformed', `it gave ${typeof given}, not an object`);
  const answer = asObject(given);
  const own = asObject(answer['hookSpecificOutput']);
  const word = own['permissionDecision'] ?? answer['decision'] ?? undefined;
  if (!DECISIONS.has(word))
    throw new DuolaneError(
      'malformed',
      `it decided ${JSON.stringify(word)}; available: allow, deny, ask`,
    );
  const decision = DECISIONS.get(word);
  const context = asString(own['additionalContext']);
  return {
    ...(decision && { decision }),
    reason: asString(own['permissionDecisionReason'], asString(answer['reason'])),
    ...(isObject(own['updatedInput']) && { updatedInput: own['updatedInput'] }),
    ...('updatedToolOutput' in own && { updatedOutput: own['updatedToolOutput'] }),
    ...('updatedMCPToolOutput' in own && { updatedOutput: own['updatedMCPToolOutput'] }),
    context: context === '' ? [] : [context],
    ...(answer['continue'] === false && {
      stop: asString(answer['stopReason'], 'a hook ended the turn'),
    }),
  };
}

const STRICTNESS = { deny: 3, ask: 2, allow: 1 } as const;

/** Several opinions as one: deny over ask over allow; later changes of input and output win. */
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
