import { chooseInterface, type Interface } from '../../../a2a/client/choose-interface.ts';
import { TaskFold, type A2AStreamEvent as A2AEvent } from '../../../a2a/index.ts';
import { DuolaneError } from '../../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../../json.ts';
import { checkHeaders, checkStream, checkTiming, type Finding } from '../../../trace/index.ts';
import { finding } from '../../../trace/rules.ts';
import {
  isTerminal,
  readState,
  readStreamEvent,
  type RecordedStreamEvent,
} from '../../../trace/a2a-events.ts';
import { RawClient, type ReceivedStream } from './raw-client.ts';

/** Options of `probe()`. */
export interface ProbeOptions {
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The result of `probe()`. */
export interface Probe {
  readonly findings: readonly Finding[];
  /** The measurements as text, in the order of the probe. */
  readonly facts: readonly string[];
}

/**
 * Checks a server against the stream contract: reads its card, sends a message and reads the stream
 * to its end, reads the task, asks for an unknown task, then sends a second message, disconnects
 * and reconnects. So the agent runs twice.
 */
export async function probe(url: string, options: ProbeOptions): Promise<Probe> {
  const findings: Finding[] = [];
  const facts: string[] = [];
  const { card, found } = await readCard(url, options);
  findings.push(...found);
  if (!card) return { findings, facts };
  const target = choose(card, url);
  facts.push(
    `the card of ${JSON.stringify(card['name'])} offers A2A ${target.version} at ${target.url}`,
  );
  const caller = new RawClient(target, options.headers);
  const run = { caller, target, options, findings, facts };
  await completeRun(run);
  await unknownTask(run);
  await cutRun(run);
  return { findings, facts };
}

interface ProbeRun {
  readonly caller: RawClient;
  readonly target: Interface;
  readonly options: ProbeOptions;
  readonly findings: Finding[];
  readonly facts: string[];
}

const limit = ({ signal, timeoutMs }: ProbeOptions): AbortSignal =>
  AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);

async function readCard(
  url: string,
  options: ProbeOptions,
): Promise<{ readonly card?: JsonObject; readonly found: Finding[] }> {
  const base = url.replace(/(?<!\/)\/+$/, '');
  const addresses = base.endsWith('.json')
    ? [base]
    : [
        ...new Set([
          `${base}/.well-known/agent-card.json`,
          `${new URL(base).origin}/.well-known/agent-card.json`,
        ]),
      ];
  const failed: string[] = [];
  for (const address of addresses) {
    const response = await fetch(address, {
      headers: { accept: 'application/json', 'a2a-version': '1.0', ...options.headers },
      signal: limit(options),
    }).catch((cause: unknown) => {
      throw new DuolaneError('network', `cannot reach ${address}: is the server running?`, {
        cause,
      });
    });
    // A body that is not JSON is not a card; this is reported below.
    const card: unknown = await response.json().catch(() => undefined);
    if (!response.ok || !isObject(card)) {
      failed.push(`${address} (${response.status})`);
      continue;
    }
    const { streaming } = asObject(card['capabilities']);
    const found =
      streaming === true
        ? []
        : [finding('server-streaming', 0, 'capabilities.streaming is not true')];
    return { card, found };
  }
  return { found: [finding('server-card', 0, `no agent card at ${failed.join(', ')}`)] };
}

function choose(card: JsonObject, url: string): Interface {
  const target = chooseInterface(card, {}, ['JSONRPC'], false);
  const given = new URL(url);
  // The headers contain credentials, which must be sent only to the address that the user gave.
  if (new URL(target.url).origin === given.origin) return target;
  throw new DuolaneError(
    'invalid',
    `the card points to ${target.url}: expected ${given.origin}; check that address, or correct the card`,
  );
}

async function completeRun({ caller, target, options, findings, facts }: ProbeRun): Promise<void> {
  const signal = limit(options);
  const received = await caller.listen('stream', caller.message(options.message), { signal });
  const events = eventsOf(received);
  findings.push(
    ...checkHeaders(received.headers),
    ...judge(received, { requestId: caller.lastId }),
  );
  const timed = received.records.map(({ at }, i) => {
    const event = events[i];
    const stamp = event && 'stamp' in event ? event.stamp : undefined;
    return { at, ...(stamp !== undefined && { stamp }) };
  });
  const { sentAt, silentMs } = received;
  findings.push(...checkTiming({ sentAt, silentMs, events: timed }));
  facts.push(describe(received));
  const last = stateOf(events);
  const task = taskOf(events);
  if (task === undefined) return;
  const { result } = await caller.call('get', { id: task }, signal);
  const stored = statusState(result, target.version);
  if (last !== undefined && stored !== last)
    findings.push(
      finding('server-get', 0, `the stream ended as ${last}, but the task is ${String(stored)}`),
    );
  else facts.push(`afterwards the task is ${String(stored)}, like the end of the stream`);
}

async function unknownTask({ caller, options, findings, facts }: ProbeRun): Promise<void> {
  const id = `no-such-task-${Date.now()}`;
  const { error } = await caller.call('get', { id }, limit(options));
  const code = isObject(error) ? error['code'] : undefined;
  if (code === -32001) facts.push('an unknown task is -32001');
  else
    findings.push(
      finding('server-not-found', 0, `an unknown task gives ${JSON.stringify(code ?? 'no error')}`),
    );
}

/** Disconnects after the second event and reconnects. */
async function cutRun({ caller, target, options, findings, facts }: ProbeRun): Promise<void> {
  const signal = limit(options);
  const before = await caller.listen('stream', caller.message(options.message), {
    signal,
    limit: 2,
  });
  const task = taskOf(eventsOf(before));
  if (task === undefined || isTerminal(stateOf(eventsOf(before)))) {
    facts.push('the run ended before the disconnect: resuming was not tested');
    return;
  }
  const after = before.records.at(-1)?.id;
  const rest = await caller.listen(
    'subscribe',
    { id: task },
    {
      signal,
      ...(after !== undefined && { after }),
    },
  );
  const { result } = await caller.call('get', { id: task }, signal);
  const state = statusState(result, target.version);
  const refused = eventsOf(rest).every(({ kind }) => kind === 'unknown');
  // A2A 1.0 does not allow a subscription to a task that has ended meanwhile.
  if (refused && isTerminal(state)) {
    facts.push(`the task ended (${String(state)}) before the client reconnected`);
    return;
  }
  const end = stateOf(eventsOf(rest));
  if (refused || end === undefined || end !== state) {
    findings.push(
      finding(
        'server-resubscribe',
        0,
        `after a reconnect the stream gave ${refused ? firstData(rest) : `the end ${String(end)}`}; the task is ${String(state)}`,
      ),
    );
    return;
  }
  findings.push(...judge(rest, { requestId: caller.lastId - 1, resumed: true }));
  const seen = new Set(before.records.flatMap(({ id }) => id ?? []));
  const twice = rest.records.flatMap(({ id }) => id ?? []).filter((id) => seen.has(id));
  if (twice.length > 0)
    findings.push(
      finding(
        'server-resume-gap',
        0,
        `the events ${twice.join(', ')} were sent again after Last-Event-ID ${String(after)}`,
      ),
    );
  const missing = target.version === '1.0' && differs([before, rest], result);
  if (missing) findings.push(finding('server-resume-gap', 0, missing));
  const position = after === undefined ? 'without an event id' : `after the event ${after}`;
  facts.push(`reconnected ${position}: ${rest.records.length} further events to the end`);
}

/** Why the text of the two halves differs from the text of the task, if it does. */
function differs(halves: readonly ReceivedStream[], task: unknown): string | undefined {
  const fold = new TaskFold();
  for (const { records } of halves) {
    for (const [at, { data }] of records.entries())
      fold.apply(resultOf(data) as A2AEvent, at === 0);
  }
  const stored = new TaskFold();
  stored.apply({ task } as A2AEvent);
  if (fold.text === stored.text) return undefined;
  return `the two halves together have ${fold.text.length} characters, the task has ${stored.text.length}`;
}

function judge(received: ReceivedStream, options: Parameters<typeof checkStream>[0]): Finding[] {
  const checker = checkStream(options);
  const found = received.records.flatMap((record, at) => [...checker.see(record, at + 1)]);
  return [...found, ...checker.end()];
}

function describe({ records, sentAt, silentMs }: ReceivedStream): string {
  const [first, last] = [records[0], records.at(-1)];
  if (!first || !last) return 'the stream had no event';
  return `first event after ${first.at - sentAt} ms, ${records.length} events in ${last.at - sentAt} ms, longest silence ${silentMs} ms`;
}

const eventsOf = ({ records }: ReceivedStream): RecordedStreamEvent[] =>
  records.map(({ data }) => readStreamEvent(resultOf(data)));

function resultOf(data: string): unknown {
  try {
    const value: unknown = JSON.parse(data);
    return isObject(value) ? value['result'] : undefined;
  } catch {
    // An event that is not JSON has no result; the checks report it.
    return undefined;
  }
}

const taskOf = (events: readonly RecordedStreamEvent[]): string | undefined => {
  const found = events.find((event) => 'taskId' in event);
  return found && 'taskId' in found && typeof found.taskId === 'string' ? found.taskId : undefined;
};

const stateOf = (events: readonly RecordedStreamEvent[]): string | undefined => {
  const last = events.findLast((event) => 'state' in event);
  return last && 'state' in last ? last.state : undefined;
};

function statusState(task: unknown, version: Interface['version']): string | undefined {
  const status = isObject(task) ? task['status'] : undefined;
  return readState(version, isObject(status) ? status['state'] : undefined);
}

const firstData = ({ records }: ReceivedStream): string =>
  records[0]?.data.slice(0, 200) ?? 'nothing';
