import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import { parseId } from '../../event/event-id.ts';
import type { Logger, Snapshot, Turn } from '../../event/types.ts';
import { sseResponse, streamResponse } from '../../http/sse-response.ts';
import type { StreamRegistry, StreamSlot } from '../../http/stream-registry.ts';
import { traceContext } from '../../http/trace-context.ts';
import type { JsonObject } from '../../json.ts';
import {
  agUiEncoder,
  answersTo,
  type OutputEncoder,
  type PostedTurn,
  readAgUiPost,
  readStreamJsonPost,
  readUiPost,
  streamJsonEncoder,
  uiMessageEncoder,
} from '../../outputs/index.ts';
import { keepAlive } from '../../stream/keep-alive.ts';
import { getOwnTask, isOwnTask, type TaskScope } from '../../task/log/own-task.ts';
import { matchAnswers, spokenAnswers } from '../../task/match-answers.ts';
import { nameId } from '../../task/name-id.ts';
import { uuidV7 } from '../../task/uuid-v7.ts';
import type { OnRefusedAnswers, Runner, TaskLog } from '../../task/types.ts';
import { readJsonBody } from './read-body.ts';
import { answered, RETRY_AFTER_MS } from '../failure-response.ts';
import { followFrontEnd, type FrontEndMessage, messageStart } from './front-end-stream.ts';
import { httpRoute, type HttpRoute, type RouteCall } from '../router.ts';
import { jsonResponse } from '../../http/text-response.ts';

export interface OutputsOptions {
  readonly agents: readonly string[];
  readonly log: TaskLog;
  readonly runner: Runner;
  readonly onRefusedAnswers: OnRefusedAnswers;
  readonly heartbeatMs: number;
  /** Gets failures whose text is withheld from callers. */
  readonly logger: Logger;
  /** The open streams, counted for each owner. */
  readonly streams: StreamRegistry;
  readonly maxBodyBytes: number;
}

/**
 * The protocol of a front end: how to parse its requests, encode entries and write the response.
 */
interface Protocol {
  readonly path: string;
  readonly read: (body: JsonObject) => PostedTurn;
  readonly output: (url: URL) => OutputEncoder;
  readonly respond: (lines: AsyncIterable<FrontEndMessage | 'heartbeat'>) => Response;
}

const PROTOCOLS: readonly Protocol[] = [
  { path: '/ag-ui', read: readAgUiPost, output: () => agUiEncoder(), respond: sse },
  {
    path: '/ui',
    read: readUiPost,
    output: ({ searchParams }) => uiMessageEncoder({ version: Number(searchParams.get('ai')) }),
    respond(lines) {
      const response = sse(lines, '[DONE]');
      response.headers.set('x-vercel-ai-ui-message-stream', 'v1');
      return response;
    },
  },
  {
    path: '/stream-json',
    read: readStreamJsonPost,
    output: () => streamJsonEncoder(),
    respond: jsonLines,
  },
];

/**
 * Serves front ends at `/ui/<agent>` (AI SDK), `/ag-ui/<agent>` and `/stream-json/<agent>`. A POST
 * submits a turn or answers, and its response streams what follows from the log.
 * `<path>/<conversation>/stream` continues the task that runs or waits there (204 if none does),
 * and `…/stop` cancels it; a client that only disconnects cancels nothing. Each message has an id:
 * a client that sends it back as `Last-Event-ID` gets exactly the rest.
 */
export const outputRoutes = (options: OutputsOptions): readonly HttpRoute[] =>
  options.agents.flatMap((agent) =>
    PROTOCOLS.flatMap((protocol) => new FrontEnd(agent, protocol, options).routes),
  );

class FrontEnd {
  readonly #agent: string;
  readonly #protocol: Protocol;
  readonly #options: OutputsOptions;

  constructor(agent: string, protocol: Protocol, options: OutputsOptions) {
    this.#agent = agent;
    this.#protocol = protocol;
    this.#options = options;
  }

  get routes(): readonly HttpRoute[] {
    const base = `${this.#protocol.path}/${encodeURIComponent(this.#agent)}`;
    const route = (
      method: HttpRoute['method'],
      path: string,
      handle: (call: RouteCall) => Promise<Response>,
    ): HttpRoute => answered(httpRoute(method, path, handle), this.#options.logger);
    return [
      route('POST', base, (call) => this.#post(call)),
      route('GET', `${base}/:context/stream`, (call) => this.#reconnect(call)),
      route('POST', `${base}/:context/stop`, (call) => this.#stop(call)),
    ];
  }

  async #post(call: RouteCall): Promise<Response> {
    const resumed = await this.#resume(call);
    if (resumed) return resumed;
    const posted = this.#protocol.read(
      await readJsonBody(call.request, this.#options.maxBodyBytes),
    );
    const metadata = { ...traceContext(call.request), ...posted.metadata };
    const turn = await this.#turn({ ...posted, metadata }, call.owner);
    // Before the submit, so that a caller with too many streams is refused without creating a task.
    const slot = this.#options.streams.openStream(call.owner, call.request.signal);
    try {
      const entry = await this.#options.runner.submit(turn);
      const { task } = entry.type === 'turn.submitted' ? entry.turn : turn;
      return this.#stream(call, task, { from: entry.seq }, slot);
    } catch (error) {
      slot.release();
      throw error;
    }
  }

  /** Continues after the event id that the client sent; undefined if it sent none. */
  async #resume(call: RouteCall): Promise<Response | undefined> {
    const last = call.request.headers.get('last-event-id');
    if (last === null) return undefined;
    const colon = last.lastIndexOf(':');
    const { task, seq } = await this.#own(last.slice(0, colon), call.owner);
    const after = last.slice(colon + 1);
    if (parseId(after).seq > seq)
      throw new DuolaneError(
        'invalid',
        `invalid event id "${last}": expected one up to ${task}:${seq}, the last of the task`,
      );
    return this.#stream(call, task, { after });
  }

  async #reconnect(call: RouteCall): Promise<Response> {
    const resumed = await this.#resume(call);
    if (resumed) return resumed;
    const newest = await this.#newest(call.params['context'], call.owner);
    if (!newest || isFinal(newest.state)) return new Response(null, { status: 204 });
    const { signal } = call.request;
    const output = this.#protocol.output(call.url);
    const from = await messageStart(this.#options.log, newest, output, signal);
    return this.#stream(call, newest.task, { from });
  }

  async #stop(call: RouteCall): Promise<Response> {
    const newest = await this.#newest(call.params['context'], call.owner);
    if (!newest || isFinal(newest.state)) return new Response(null, { status: 204 });
    const { task, state } = await this.#options.log.requestCancel(newest.task);
    return jsonResponse({ task, state });
  }

  #stream(
    { request, url, owner }: RouteCall,
    task: string,
    start: { readonly from: number } | { readonly after: string },
    slot: StreamSlot = this.#options.streams.openStream(owner, request.signal),
  ): Response {
    const { log, heartbeatMs } = this.#options;
    const output = this.#protocol.output(url);
    const lines = async function* (): AsyncGenerator<FrontEndMessage, void, undefined> {
      try {
        for await (const { id, message } of followFrontEnd(log, task, output, start, slot.signal))
          yield id === undefined ? { message } : { id: `${task}:${id}`, message };
      } catch (error) {
        if (!slot.signal.aborted) throw error;
      } finally {
        slot.release();
      }
    };
    return this.#protocol.respond(keepAlive(lines(), heartbeatMs, () => 'heartbeat' as const));
  }

  /**
   * The turn for what was posted: answers to the open questions of the conversation, or a new task.
   * Answers that are refused go to the audit log.
   */
  async #turn(posted: PostedTurn, owner: string | undefined): Promise<Turn> {
    const asking = await this.#asking(posted, owner);
    try {
      return await this.#turnIn(asking, posted, owner);
    } catch (error) {
      const { context, messageId, within } = posted;
      const answers = posted.given.length > 0 ? posted.given : spokenAnswers(posted.parts);
      if (answers.length > 0) {
        const task = asking?.task ?? (within && taskIn(within));
        const refused = { agent: this.#agent, owner: owner ?? '', task, context };
        await this.#options.onRefusedAnswers({ ...refused, messageId, answers }, error);
      }
      throw error;
    }
  }

  async #turnIn(
    asking: Snapshot | undefined,
    posted: PostedTurn,
    owner: string | undefined,
  ): Promise<Turn> {
    const { messageId, parts, given, within, metadata } = posted;
    // A message that is posted again is the turn that it created, whatever the task asks by now.
    const known = asking?.turns.find((turn) => turn.messageId === messageId);
    if (known) return known;
    const answers = asking ? answersTo(asking.pending, given) : [];
    const base = {
      agent: this.#agent,
      context: asking?.context ?? posted.context ?? uuidV7(),
      metadata,
      ...(owner !== undefined && { owner }),
    };
    if (asking && answers.length > 0) {
      const ids = nameId(JSON.stringify(answers.map(({ id }) => id)));
      // The id names the message that is continued, and makes the same answers the same turn.
      const id = within === undefined ? (messageId ?? randomUUID()) : `${within}/${ids}`;
      return { ...base, task: asking.task, messageId: id, parts: [], answers };
    }
    if (parts.length === 0) {
      const again = asking?.turns.find((turn) => isWithin(turn, within, given));
      if (again) return again;
      throw new DuolaneError(
        'invalid',
        given.length > 0
          ? 'no open question matches the answers; it may have been answered or canceled'
          : 'missing input: the last message must be a user message or contain answers',
      );
    }
    if (asking && asking.pending.length > 0 && messageId !== undefined) {
      const read = await matchAnswers(this.#options.log, asking, { parts, answers: [] });
      return { ...base, ...read, task: asking.task, messageId };
    }
    return { ...base, task: uuidV7(), messageId: messageId ?? randomUUID(), parts };
  }

  /** The task that answers may be for: that of the message, or the last of the conversation. */
  async #asking({ context, within }: PostedTurn, owner: string | undefined) {
    if (within !== undefined) {
      const named = await getOwnTask(this.#options.log, taskIn(within), this.#scope(owner));
      if (named) return named;
    }
    return context === undefined ? undefined : this.#newest(context, owner);
  }

  async #newest(context = '', owner: string | undefined): Promise<Snapshot | undefined> {
    const query = { context, owner: owner ?? '', outline: true };
    for await (const snapshot of this.#options.log.list(query))
      if (isOwnTask(snapshot, this.#scope(owner))) return this.#options.log.get(snapshot.task);
    return undefined;
  }

  async #own(task: string, owner: string | undefined): Promise<Snapshot> {
    const snapshot = await getOwnTask(this.#options.log, task, this.#scope(owner));
    if (snapshot) return snapshot;
    throw new DuolaneError('not_found', `task "${task}" not found; it may have been pruned`);
  }

  #scope(owner: string | undefined): TaskScope {
    return { agent: this.#agent, owner };
  }
}

/** The id of the task from the id of one of its messages. */
const taskIn = (messageId: string): string => messageId.replace(/\.\d+$/, '');

/** Whether the same answers created this turn when they were posted before. */
const isWithin = (
  { messageId, answers = [] }: Turn,
  within: string | undefined,
  given: PostedTurn['given'],
): boolean =>
  within !== undefined &&
  messageId.startsWith(`${within}/`) &&
  answers.some(({ id }) => given.some((each) => each.id === id));

function sse(lines: AsyncIterable<FrontEndMessage | 'heartbeat'>, last?: string): Response {
  const items = async function* () {
    try {
      for await (const line of lines) {
        if (line === 'heartbeat') yield line;
        else
          yield {
            ...(line.id !== undefined && { id: line.id }),
            data: JSON.stringify(line.message),
          };
      }
    } catch (error) {
      // The store failed. The client reconnects with its last id after this time.
      yield { retry: RETRY_AFTER_MS };
      throw error;
    }
    if (last !== undefined) yield { data: last };
  };
  return sseResponse(items());
}

const JSONL_HEADERS = {
  'content-type': 'application/jsonl; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};

/**
 * The id of a line is its `uuid`. Blank lines keep proxies from closing a stream without messages.
 */
function jsonLines(lines: AsyncIterable<FrontEndMessage | 'heartbeat'>): Response {
  const texts = async function* (): AsyncGenerator<string, void, undefined> {
    for await (const line of lines) {
      if (line === 'heartbeat') yield '\n';
      else yield `${JSON.stringify({ ...line.message, uuid: line.id ?? randomUUID() })}\n`;
    }
  };
  return streamResponse(texts(), JSONL_HEADERS);
}
