import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { awaitsEvent } from '../../event/fold/steps.ts';
import type { Logger, Snapshot, Turn } from '../../event/types.ts';
import { omitUndefined } from '../../json.ts';
import { getOwnTask } from '../../task/log/own-task.ts';
import { nameId } from '../../task/name-id.ts';
import type { AwaitedEvent, EventUrls, Runner, TaskLog } from '../../task/types.ts';
import { answered } from '../failure-response.ts';
import type { HttpRoute } from '../router.ts';
import { checkForm, readJsonBody } from './read-body.ts';
import { jsonResponse } from '../../http/text-response.ts';

/** How events from outside reach the tasks that wait for them. */
export interface EventOptions {
  /**
   * The key that signs the addresses of `ctx.eventUrl`: at least 32 characters, the same on all
   * replicas. Without it, addresses are valid until this process ends.
   */
  readonly key?: string;
}

export interface EventRouteOptions {
  readonly log: Pick<TaskLog, 'get'>;
  readonly runner: Pick<Runner, 'submit'>;
  readonly logger: Logger;
  readonly maxBodyBytes: number;
}

/** Signed addresses for events from outside, and the routes that take events. */
export interface EventAddresses {
  readonly eventUrl: EventUrls;
  readonly routes: (options: EventRouteOptions) => readonly HttpRoute[];
}

const LIFE_MS = 7 * 24 * 60 * 60 * 1000;
const MIN_KEY_CHARS = 32;
const PATH = '/events/';

/** Whether the path is a signed address, which needs no other credentials. */
export const isEventPath = (pathname: string): boolean => pathname.startsWith(PATH);

/**
 * Creates the addresses of events. An address contains task, turn, event and its end, and their
 * HMAC: its holder can deliver this one event, and nothing else. `baseUrl` is read when an
 * address is made.
 */
export function createEvents(
  { key }: EventOptions = {},
  baseUrl: () => string,
  logger: Logger,
): EventAddresses {
  if (key !== undefined && key.length < MIN_KEY_CHARS)
    throw new DuolaneError(
      'invalid',
      `invalid events.key: expected at least ${MIN_KEY_CHARS} characters`,
    );
  const secret = key ?? randomBytes(32);
  let isWarned = key !== undefined;
  const signature = (payload: string): Buffer =>
    createHmac('sha256', secret).update(`duolane-event-1\n${payload}`).digest();
  return {
    eventUrl({ task, turn, id }, { expiresInMs = LIFE_MS } = {}) {
      if (!isWarned)
        logger.warn('event addresses end with this process; set events.key to keep them valid');
      isWarned = true;
      const claims = [task, turn, id, Date.now() + expiresInMs];
      const payload = Buffer.from(JSON.stringify(claims)).toString('base64url');
      return `${baseUrl()}${PATH}${payload}.${signature(payload).toString('base64url')}`;
    },
    routes: (options) => eventRoutes(options, (token) => readToken(token, signature)),
  };
}

function eventRoutes(
  { log, runner, logger, maxBodyBytes }: EventRouteOptions,
  read: (token: string) => AwaitedEvent,
): readonly HttpRoute[] {
  const routes: readonly HttpRoute[] = [
    {
      method: 'POST',
      path: '/api/tasks/:task/events/:event',
      async handle({ request, params, owner }) {
        const { task = '', event = '' } = params;
        const { data } = await readJsonBody(request, maxBodyBytes);
        const snapshot = await getOwnTask(log, task, { owner });
        if (!snapshot) throw noTask(task);
        const turn = snapshot.current?.messageId ?? '';
        return deliver(runner, snapshot, { task, turn, id: event }, data, owner);
      },
    },
    {
      method: 'POST',
      path: `${PATH}:token`,
      async handle({ request, params }) {
        const event = read(params['token'] ?? '');
        const data = await readJsonBody(request, maxBodyBytes);
        const snapshot = await log.get(event.task);
        if (!snapshot) throw noTask(event.task);
        // No caller is known, so the audit log must not name the owner of the task.
        return deliver(runner, snapshot, event, data, undefined);
      },
    },
  ];
  return routes.map((route) => answered(route, logger));
}

/**
 * Delivers an event. The same event again is the same turn, so it changes nothing and gets the same
 * response: senders of webhooks repeat what they get no response for.
 */
async function deliver(
  runner: Pick<Runner, 'submit'>,
  snapshot: Snapshot,
  { task, turn, id }: AwaitedEvent,
  data: unknown,
  owner: string | undefined,
): Promise<Response> {
  const { agent, context, turns, current, waits = [] } = snapshot;
  const isOpen = awaitsEvent(snapshot, id) && current?.messageId === turn;
  // Hashed: a turn may have any id, and the id of this message must be as short as any other.
  const messageId = `event/${nameId(JSON.stringify([task, turn, id]))}`;
  const isKnown = turns.some((each) => each.messageId === messageId);
  if (!isOpen && !isKnown)
    throw new DuolaneError(
      'conflict',
      `task "${task}" does not wait for event "${id}"; it has gone on, or does not wait yet`,
      { retryable: false },
    );
  const schema = waits.find((wait) => wait.id === id)?.schema;
  if (isOpen && schema) await checkForm(schema, data);
  const answer = omitUndefined<Answer>({ id, action: 'accept', content: data });
  const submitted: Turn = {
    agent,
    task,
    context,
    messageId,
    parts: [],
    answers: [answer],
    ...omitUndefined({ owner }),
  };
  const { seq } = await runner.submit(submitted);
  return jsonResponse({ task, event: id, seq }, { status: 202 });
}

function readToken(token: string, signature: (payload: string) => Buffer): AwaitedEvent {
  const [payload = '', given = '', ...more] = token.split('.');
  const wanted = signature(payload);
  const bytes = Buffer.from(given, 'base64url');
  if (more.length > 0 || bytes.length !== wanted.length || !timingSafeEqual(bytes, wanted))
    throw new DuolaneError('unauthorized', 'the signature of the event address is not valid');
  const [task, turn, id, until] = JSON.parse(
    Buffer.from(payload, 'base64url').toString(),
  ) as unknown[];
  if (Number(until) <= Date.now())
    throw new DuolaneError('unauthorized', 'the event address has expired');
  return { task: String(task), turn: String(turn), id: String(id) };
}

const noTask = (task: string): DuolaneError =>
  new DuolaneError('not_found', `task "${task}" not found; it may have been pruned`);
