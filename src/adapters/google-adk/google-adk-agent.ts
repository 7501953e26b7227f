import type { Answer, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { modelError } from '../../event/retry/model-error.ts';
import type { Agent, AgentContext, AgentEvent, Part, Turn } from '../../event/types.ts';
import { asObject, asString, isObject, type JsonObject } from '../../json.ts';
import { callerKey } from '../shared/conversation-key.ts';
import { EventReader, type Request } from './event-reader.ts';

/** What we use of a `Runner` of Google's Agent Development Kit. */
export interface AdkRunner {
  readonly appName: string;
  readonly agent: unknown;
  readonly sessionService: {
    getSession(place: never): PromiseLike<unknown>;
    createSession(place: never): PromiseLike<unknown>;
  };
  readonly artifactService?: { loadArtifact(place: never): PromiseLike<unknown> };
  runAsync(run: never): AsyncIterable<unknown>;
}

export interface AdkOptions {
  /** More for ADK's `runConfig`. */
  readonly runConfig?: JsonObject;
}

const CONFIRMATION = 'adk_request_confirmation';

/**
 * A runner of Google's ADK as an Agent. Its session is the context of the turn, made when it is
 * first needed. A tool that requires confirmation becomes a question to a person; with the answer
 * the session goes on, after a restart too if its session service keeps it. An agent with an
 * `outputSchema` gives the run its `output`; what its tools save is an artifact. A run that `withRetry` repeats sends its message to
 * the session again.
 */
export function googleAdk(runner: AdkRunner, { runConfig }: AdkOptions = {}): Agent {
  const run = async function* (
    turn: Turn,
    ctx: AgentContext,
  ): AsyncGenerator<AgentEvent, void, undefined> {
    yield { type: 'run.started' };
    const place = { userId: callerKey(turn) ?? 'user', sessionId: turn.context };
    await openSession(runner, place);
    const reader = new EventReader();
    const known = ctx.task.answers;
    let message =
      known.length > 0 ? answers(known) : { role: 'user', parts: turn.parts.map(partOf) };
    for (;;) {
      const call = {
        ...place,
        newMessage: message,
        runConfig: { streamingMode: 'sse', ...runConfig },
        abortSignal: ctx.signal,
      };
      for await (const event of read(runner.runAsync(call as never), ctx.signal)) {
        yield* reader.read(event);
        yield* saved(runner, place, event);
      }
      const requests = reader.takeRequests();
      if (requests.length === 0) break;
      message = answers(await askAll(requests, turn, ctx));
    }
    yield* reader.end();
    if (asObject(runner.agent)['outputSchema'] !== undefined) yield* structured(reader.answer);
  };
  return Object.assign(run, { continues: true });
}

async function openSession(
  { appName, sessionService }: AdkRunner,
  place: { readonly userId: string; readonly sessionId: string },
): Promise<void> {
  const where = { appName, ...place } as never;
  if (!(await sessionService.getSession(where))) await sessionService.createSession(where);
}

async function* read(
  events: AsyncIterable<unknown>,
  signal: AbortSignal,
): AsyncGenerator<JsonObject, void, undefined> {
  try {
    for await (const event of events) yield asObject(event);
  } catch (error) {
    signal.throwIfAborted();
    throw modelError(error, 'internal');
  }
  // An aborted run just ends.
  signal.throwIfAborted();
}

/** What a tool has saved: the event names it, the service has it. A new version replaces the old. */
async function* saved(
  { appName, artifactService }: AdkRunner,
  place: JsonObject,
  event: JsonObject,
): AsyncGenerator<AgentEvent, void, undefined> {
  const names = asObject(asObject(event['actions'])['artifactDelta']);
  for (const [filename, version] of Object.entries(names)) {
    const where = { appName, ...place, filename, version };
    const part = asObject(await artifactService?.loadArtifact(where as never));
    const { data, mimeType } = asObject(part['inlineData']);
    const mediaType = asString(mimeType) || 'application/octet-stream';
    const saved: Part =
      data === undefined
        ? { text: asString(part['text']) }
        : { bytes: Buffer.from(asString(data), 'base64'), mediaType, filename };
    yield { type: 'artifact', artifactId: filename, name: filename, parts: [saved], last: true };
  }
}

function* structured(answer: string): Generator<AgentEvent, void, undefined> {
  try {
    const output: unknown = JSON.parse(answer);
    yield { type: 'run.finished', outcome: 'completed', text: '', output };
  } catch {
    // The error is that the text is not JSON; the parser's message adds nothing.
    throw new DuolaneError('malformed', 'the answer is not the JSON that was asked for');
  }
}

const askAll = (
  requests: readonly Request[],
  turn: Turn,
  { ask, signal }: AgentContext,
): Promise<readonly Answer[]> =>
  Promise.all(requests.map((request) => ask(question(request, turn), { signal })));

/** Named after the call that waits and ADK's own call for it, which is all that the answer needs. */
function question({ id, name, args }: Request, turn: Turn): InputRequest {
  const call = asObject(args['originalFunctionCall']);
  const callId = asString(call['id']);
  const hint = asString(asObject(args['toolConfirmation'])['hint']) || asString(args['message']);
  return {
    id: `${callId || turn.messageId}/${name}/${id}`,
    kind: name === CONFIRMATION ? 'approval' : name.endsWith('credential') ? 'auth' : 'question',
    ...(hint !== '' && { message: hint }),
    ...(callId !== '' && { callId }),
    data: name === CONFIRMATION ? { name: asString(call['name']), args: call['args'] } : args,
  };
}

const answers = (
  given: readonly Answer[],
): { readonly role: string; readonly parts: readonly JsonObject[] } => ({
  role: 'user',
  parts: given.map(({ id: question, action, content }) => {
    const [name, id] = question.split('/').slice(-2);
    const confirmed = action === 'accept';
    const response = isObject(content) ? content : { result: content };
    return {
      functionResponse: { id, name, response: name === CONFIRMATION ? { confirmed } : response },
    };
  }),
});

function partOf(part: Part): JsonObject {
  if ('text' in part) return { text: part.text };
  if ('data' in part) return { text: JSON.stringify(part.data) };
  const { mediaType = 'application/octet-stream' } = part;
  if ('url' in part) return { fileData: { fileUri: part.url, mimeType: mediaType } };
  return { inlineData: { data: Buffer.from(part.bytes).toString('base64'), mimeType: mediaType } };
}
