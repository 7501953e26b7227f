import { type Answer, approvedArgs, type InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Agent, AgentContext, AgentEvent, Part, Turn } from '../../event/types.ts';
import { asObject, asObjects, asString, isObject, type JsonObject } from '../../json.ts';
import { continuingAgent, readModel } from '../shared/framework-agent.ts';
import { callerKey } from '../shared/conversation-key.ts';
import { durableAnswers } from '../shared/durable-call.ts';
import { durableRunner, isExtensible } from './durable-runner.ts';
import { EventReader, type Request } from './event-reader.ts';

/** The part of a `Runner` of Google's Agent Development Kit that the adapter uses. */
export interface AdkRunner {
  readonly appName: string;
  readonly agent: unknown;
  readonly sessionService: {
    getSession(request: never): PromiseLike<unknown>;
    createSession(request: never): PromiseLike<unknown>;
  };
  readonly pluginManager?: unknown;
  readonly artifactService?: { loadArtifact(request: never): PromiseLike<unknown> };
  runAsync(run: never): AsyncIterable<unknown>;
}

/** Options of `googleAdk()`. */
export interface AdkOptions {
  /** More members of ADK's `runConfig`. */
  readonly runConfig?: JsonObject;
  /** Whether model calls and tool calls are durable steps; `true` by default. */
  readonly durable?: boolean;
}

/** The session of a run. */
export interface AdkSessionKey {
  readonly userId: string;
  readonly sessionId: string;
}

const CONFIRMATION = 'adk_request_confirmation';

/**
 * Creates an agent from a runner of Google's ADK. The session of a turn is that of its context,
 * created on first use. Model calls and tool calls are durable steps: after a crash, a question to
 * a person or a move to another process, the run continues, and finished calls are answered from
 * the log. A tool call that was under way is made again with the same `functionCallId`. The session
 * service gets the events of a run when the run has completed.
 *
 * A tool that requires confirmation becomes a question to a person. With `durable: false`, and for
 * a workflow, the session continues with the answer, after a restart only if its session service is
 * persistent. An agent with an `outputSchema` sets the run's `output`; files that its tools save
 * become artifacts.
 */
export function googleAdk(
  runner: AdkRunner,
  { runConfig, durable = true }: AdkOptions = {},
): Agent {
  const settings = { streamingMode: 'sse', ...runConfig };
  if (durable && isExtensible(runner)) {
    const agent: Agent = (turn, ctx) => runDurable(runner, settings, turn, ctx);
    return Object.assign(agent, { resumable: true });
  }
  return continuingAgent(async function* (turn, ctx) {
    yield { type: 'run.started' };
    const session = sessionKey(turn);
    const sent = responsesIn(await openSession(runner, session));
    // An answer without a call is in the log until the run ends, also if the session has it.
    const asked = ctx.task.answered ?? [];
    const decided = ctx.task.answers.map((answer) => ({
      request: requestOf(answer.id),
      answer: unlessChanged(
        answer,
        asked.find(({ id }) => id === answer.id),
      ),
    }));
    const unsent = decided.filter(({ request }) => !sent.has(request.id));
    const known = unsent.length > 0 ? unsent : decided;
    const message = known.length > 0 ? answers(known) : messageOf(turn);
    const ask = (requests: readonly Request[]): Promise<readonly Decided[]> =>
      askAll(requests, ctx, (request) => question(request, turn));
    yield* loop({ runner, session, settings }, message, ctx, ask);
  });
}

async function* runDurable(
  source: AdkRunner,
  settings: JsonObject,
  turn: Turn,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, void, undefined> {
  yield { type: 'run.started' };
  const session = sessionKey(turn);
  const { runner, commit } = await durableRunner(source, session, ctx);
  const uses = new Map<string, number>();
  /** ADK gives its request another id in each run, so the question is named by the call. */
  const questionOf = (request: Request): InputRequest => {
    const asked = question(request, turn);
    const id = `${asked.callId ?? turn.messageId}/${request.name}`;
    const count = (uses.get(id) ?? 0) + 1;
    uses.set(id, count);
    // Answers are spent when the call of their question closes, so a later call with the same id
    // must not own the question.
    return { ...asked, id: count === 1 ? id : `${turn.messageId}/${id}-${count}` };
  };
  let asked = 0;
  const ask = async (requests: readonly Request[]): Promise<readonly Decided[]> => {
    // Numbered also if the log has the answers: a later call with this id must get another.
    const questions = new Map(requests.map((request) => [request, questionOf(request)]));
    const given = await durableAnswers(ctx, `answers ${++asked}`, async () =>
      (await askAll(requests, ctx, (request) => questions.get(request) as InputRequest)).map(
        ({ answer }) => answer,
      ),
    );
    return requests.flatMap((request, index) => {
      const answer = given[index];
      return answer ? [{ request, answer }] : [];
    });
  };
  yield* loop({ runner, session, settings }, messageOf(turn), ctx, ask, commit);
}

const sessionKey = (turn: Turn): AdkSessionKey => ({
  userId: callerKey(turn) ?? 'user',
  sessionId: turn.context,
});

/** A request of ADK, and the answer of a person. */
interface Decided {
  readonly request: Pick<Request, 'id' | 'name'>;
  readonly answer: Answer;
}

/** Runs the agent, and again with the answers of a person while it requests any. */
async function* loop(
  {
    runner,
    session,
    settings: runConfig,
  }: { readonly runner: AdkRunner; readonly session: AdkSessionKey; readonly settings: JsonObject },
  first: JsonObject,
  ctx: AgentContext,
  ask: (requests: readonly Request[]) => Promise<readonly Decided[]>,
  commit: () => Promise<void> = async () => {},
): AsyncGenerator<AgentEvent, void, undefined> {
  const reader = new EventReader();
  let newMessage = first;
  for (;;) {
    const call = { ...session, newMessage, runConfig, abortSignal: ctx.signal };
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
    newMessage = answers(await ask(requests));
  }
  yield* reader.end();
  await commit();
  if (asObject(runner.agent)['outputSchema'] !== undefined) yield* structured(reader.answer);
}

const messageOf = ({ parts }: Turn): JsonObject => ({ role: 'user', parts: parts.map(partOf) });

async function openSession(
  { appName, sessionService }: AdkRunner,
  session: AdkSessionKey,
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
  session: AdkSessionKey,
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
  { ask, signal }: AgentContext,
  questionOf: (request: Request) => InputRequest,
): Promise<readonly Decided[]> =>
  Promise.all(
    requests.map(async (request) => {
      const asked = questionOf(request);
      return { request, answer: unlessChanged(await ask(asked, { signal }), asked) };
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

const answers = (given: readonly Decided[]): JsonObject => ({
  role: 'user',
  parts: given.map(({ request: { id, name }, answer: { action, content } }) => {
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
