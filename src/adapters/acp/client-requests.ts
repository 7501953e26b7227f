import { type Answer, approvedArgs, elicitationKind, type InputRequest } from '../../ask.ts';
import { DuolaneError, unsupported } from '../../errors.ts';
import type { AgentContext, Turn } from '../../event/types.ts';
import {
  asObject,
  asObjects,
  asString,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import type { RpcCall } from '../../wire/rpc-link.ts';
import { questionIdByContent } from '../shared/approval.ts';
import type { AcpClientMethod, AcpOptions } from './acp-options.ts';
import type { DescribedCall } from './update-reader.ts';

interface PermissionChoice {
  readonly optionId: string;
  readonly name: string;
  readonly kind: string;
}

const CANCELED: JsonObject = { outcome: { outcome: 'cancelled' } };

/**
 * Answers what the agent asks a person: permissions and forms. A question has the same id when the
 * run starts over, because the agent may then give its call another one.
 */
export class AcpQuestions {
  readonly #ctx: AgentContext;
  readonly #turn: Turn;
  readonly #idOf: ReturnType<typeof questionIdByContent>;
  #forms = 0;

  constructor(turn: Turn, ctx: AgentContext) {
    this.#turn = turn;
    this.#ctx = ctx;
    this.#idOf = questionIdByContent(turn);
  }

  /**
   * Asks a person about a call. Nothing is allowed that the person has not chosen: an answer that
   * names no choice of the agent, or that changes the arguments, declines.
   */
  async permission(params: JsonObject, called: DescribedCall, call: RpcCall): Promise<JsonObject> {
    const choices = choicesOf(params);
    const { callId, name, args } = called;
    const data = { name, args, choices: choices.map((each) => each.name) };
    const title = asString(asObject(params['toolCall'])['title']) || name;
    const answer = await this.#ask(
      {
        id: this.#idOf(called),
        kind: 'approval',
        message: `Allow ${title}?`,
        callId,
        data,
        ...choiceSchema(choices),
      },
      call,
    );
    if (!answer) return CANCELED;
    const chosen = choose(choices, answer, data);
    if (answer.action === 'accept' && !chosen.kind.startsWith('allow'))
      this.#ctx.logger.warn(
        `the approval of ${name} names no choice of the agent and was declined`,
        {
          choices: data.choices,
        },
      );
    return chosen.optionId === ''
      ? CANCELED
      : { outcome: { outcome: 'selected', optionId: chosen.optionId } };
  }

  /** Asks a person to fill in a form, or to open an address. */
  async elicitation(params: JsonObject, call: RpcCall): Promise<JsonObject> {
    const { mode, message, requestedSchema: schema, url } = params;
    if (mode !== 'form' && mode !== 'url')
      throw unsupported(`unknown elicitation mode "${asString(mode)}": expected form or url`);
    this.#forms += 1;
    const answer = await this.#ask(
      {
        id: `${this.#turn.messageId}/elicitation-${this.#forms}`,
        kind: elicitationKind(mode, schema),
        message: asString(message),
        ...(isObject(schema) && { schema }),
        ...(typeof url === 'string' && { data: { url } }),
      },
      call,
    );
    if (!answer) return { action: 'cancel' };
    const { action, content } = answer;
    return { action, ...(action === 'accept' && isObject(content) && { content }) };
  }

  /** Undefined: the run, or the request, has ended without an answer. */
  async #ask(request: InputRequest, { signal }: RpcCall): Promise<Answer | undefined> {
    try {
      return await this.#ctx.ask(request, { signal });
    } catch (error) {
      // The run ends as its signal says. Without an answer, nothing is allowed.
      if (this.#ctx.signal.aborted || signal.aborted) return undefined;
      // A suspended run keeps its question, and ends here.
      if (error instanceof DuolaneError && error.code === 'suspended') throw error;
      this.#ctx.logger.warn('a question of the agent could not be asked, and was declined', {
        error: String(error),
      });
      return undefined;
    }
  }
}

const choicesOf = (params: JsonObject): readonly PermissionChoice[] =>
  asObjects(params['options']).map(({ optionId, name, kind }) => ({
    optionId: asString(optionId),
    name: asString(name),
    kind: asString(kind),
  }));

const isAllowing = ({ kind }: PermissionChoice): boolean =>
  kind === 'allow_once' || kind === 'allow_always';

/** A form with the choices that allow, if there are several. */
function choiceSchema(choices: readonly PermissionChoice[]): { readonly schema?: JsonObject } {
  const names = choices.filter(isAllowing).map(({ name }) => name);
  if (names.length < 2) return {};
  const once = choices.find(({ kind }) => kind === 'allow_once')?.name;
  const choice = omitUndefined({ type: 'string', enum: names, default: once });
  return { schema: { type: 'object', properties: { choice } } };
}

const NONE: PermissionChoice = { optionId: '', name: '', kind: 'cancelled' };

/** The choice of a person, by name. A plain yes allows once, never more. */
function choose(
  choices: readonly PermissionChoice[],
  { action, content }: Answer,
  data: JsonObject,
): PermissionChoice {
  const of = (...kinds: readonly string[]): PermissionChoice | undefined =>
    kinds.flatMap((kind) => choices.filter((each) => each.kind === kind))[0];
  const rejected = of('reject_once', 'reject_always') ?? NONE;
  if (action === 'cancel') return NONE;
  const named = typeof content === 'string' ? content : asObject(content)['choice'];
  const chosen = choices.find(({ name, optionId }) => name === named || optionId === named);
  if (action === 'decline') return chosen && !isAllowing(chosen) ? chosen : rejected;
  if (chosen) return chosen;
  if (isObject(content) && named !== undefined) return rejected;
  const approved = approvedArgs(content, data, 'args');
  const isUnchanged = approved !== undefined && !approved.changed;
  return (isUnchanged ? of('allow_once') : undefined) ?? rejected;
}

/** Passes a request for a file or a terminal to the user's handler, or refuses it by name. */
export async function callMethod(
  { methods = {} }: AcpOptions,
  method: string,
  params: JsonObject,
  { signal }: RpcCall,
): Promise<JsonObject> {
  const handler = Object.hasOwn(methods, method) ? methods[method as AcpClientMethod] : undefined;
  if (!handler)
    throw unsupported(`${method} is not provided by this client; it was not announced either`);
  return handler(params, { signal });
}
