import { type Answer, approvedArgs, type InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Agent, AgentContext, AgentEvent, Part, Turn } from '../../event/types.ts';
import { asObject, asObjects, asString, isObject, type JsonObject } from '../../json.ts';
import { continuingAgent, readModel } from '../shared/framework-agent.ts';
import { callerKey } from '../shared/conversation-key.ts';
import { EventReader, type Request } from './event-reader.ts';

/** The part of a `Runner` of Google's Agent Development Kit that the adapter uses. */
export interface AdkRunner {
  readonly appName: string;
  readonly agent: unknown;
  readonly sessionService: {
    getSession(request: never): PromiseLike<unknown>;
    createSession(request: never): PromiseLike<unknown>;
  };
  readonly artifactService?: { loadArtifact(request: never): PromiseLike<unknown> };
  runAsync(run: never): AsyncIterable<unknown>;
}

/** Options of `googleAdk()`. */
export interface AdkOptions {
  /** More members of ADK's `runConfig`. */
  readonly runConfig?: JsonObject;
}

const CONFIRMATION = 'adk_request_confirmation';

/**
 * Creates an agent from a runner of Google's ADK. The session of a turn is that of its context,
 * created on first use. A tool that requires confirmation becomes a question to a person; with the
 * answer the session continues, also after a restart if its session service is persistent. An agent
 * with an `outputSchema` sets the run's `output`; files that its tools save become artifacts. A run
 * that `withRetry` repeats sends its message to the session again.
 */
export function googleAdk(runner: AdkRunner, { runConfig }: AdkOptions = {}): Agent {
  return continuingAgent(async function* (turn, ctx) {
    yield { type: 'run.started' };
    const session = { userId: callerKey(turn) ?? 'user', sessionId: turn.context };
    const sent = responsesIn(await openSession(runner, session));
    const reader = new EventReader();
    // An answer without a call is in the log until the run ends, also if the session has it.
    const asked = ctx.task.answered ?? [];
    const decided = ctx.task.answers.map((answer) =>
      unlessChanged(
        answer,
        asked.find(({ id }) => id === answer.id),
      ),
    );
    const unsent = decided.filter(({ id }) => !sent.has(requestOf(id).id));
    const known = unsent.length > 0 ? unsent : decided;
    let message =
      known.length > 0 ? answers(known) : { role: 'user', parts: turn.parts.map(partOf) };
    for (;;) {
      const call = {
        ...session,
        newMessage: message,
        runConfig: { streamingMode: 'sse', ...runConfig },
        abortSignal: ctx.signal,
      };
      const events = runner.runAsync(call as never);
      for await (const event of readModel(
        () => events,
        ctx.signal,
        (each) => [asObject(each)],
      )) {
        yield* reader.read(event);
        yield* savedArtifacts(runner, session, event);
      }
      // An aborted run of ADK ends without an error.
      ctx.signal.throwIfAborted();
      const requests = reader.takeRequests();
      if (requests.length === 0) break;
      message = answers(await askAll(requests, turn, ctx));
    }
    yield* reader.end();
    if (asObject(runner.agent)['outputSchema'] !== undefined) yield* structured(reader.answer);
  });
}

async function openSession(
  { appName, sessionService }: AdkRunner,
  session: { readonly userId: string; readonly sessionId: string },
): Promise<unknown> {
  const request = { appName, ...session } as never;
  return (await sessionService.getSession(request)) ?? sessionService.createSession(request);
}

/** The ids of the requests to which a session has a response. */
const responsesIn = (session: unknown): ReadonlySet<string> =>
  new Set(
    asObjects(asObject(session)['events'])
      .flatMap((event) => asObjects(asObject(event['content'])['parts']))
      .map((part) => asString(asObject(part['functionResponse'])['id'])),
  );

/**
 * The artifacts that an event names, loaded from the service. A new version replaces the old one.
 */
async function* savedArtifacts(
  { appName, artifactService }: AdkRunner,
  session: JsonObject,
  event: JsonObject,
): AsyncGenerator<AgentEvent, void, undefined> {
  const names = asObject(asObject(event['actions'])['artifactDelta']);
  for (const [filename, version] of Object.entries(names)) {
    const request = { appName, ...session, filename, version };
    const part = asObject(await artifactService?.loadArtifact(request as never));
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
    throw new DuolaneError('malformed', 'the model sent text: expected JSON of the outputSchema');
  }
}

const askAll = (
  requests: readonly Request[],
  turn: Turn,
  { ask, signal }: AgentContext,
): Promise<readonly Answer[]> =>
  Promise.all(
    requests.map(async (request) => {
      const asked = question(request, turn);
      return unlessChanged(await ask(asked, { signal }), asked);
    }),
  );

/**
 * The answer, or a decline if the person has changed the call: ADK can only confirm a call as it
 * is.
 */
function unlessChanged(answer: Answer, asked: InputRequest | undefined): Answer {
  const { action, content } = answer;
  if (action !== 'accept' || asked?.kind !== 'approval') return answer;
  const approved = approvedArgs(content, asObject(asked.data), 'args');
  return approved && !approved.changed ? answer : { ...answer, action: 'decline' };
}

/**
 * The question's id holds the ids of the waiting call and of ADK's request, which the answer needs.
 */
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

/** ADK's request in the id of a question. */
function requestOf(question: string): { readonly name: string; readonly id: string } {
  const [name = '', id = ''] = question.split('/').slice(-2);
  return { name, id };
}

const answers = (
  given: readonly Answer[],
): { readonly role: string; readonly parts: readonly JsonObject[] } => ({
  role: 'user',
  parts: given.map(({ id: question, action, content }) => {
    const { name, id } = requestOf(question);
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
