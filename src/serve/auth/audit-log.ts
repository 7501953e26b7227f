import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { createReadStream } from 'node:fs';
import { mkdir, open, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { MAX_ANSWERS } from '../../ask.ts';
import { DuolaneError, errorMessage } from '../../errors.ts';
import type { Logger } from '../../event/types.ts';
import { asObject, asString, tryParse } from '../../json.ts';
import type { OnRefusedAnswers, RefusedAnswers, Runner } from '../../task/types.ts';
import { httpRoute, statusResponse, type HttpRoute } from '../router.ts';

/**
 * One line of the audit log: who did what to which object, and the outcome. Records never change.
 */
export interface AuditRecord {
  /** ISO 8601, UTC. */
  readonly at: string;
  /** `sign-in`, `sign-out` or `answer`; programs may add others, such as `policy`. */
  readonly kind: string;
  /** The owner; empty on a server without `auth`, or if the caller is unknown. */
  readonly actor: string;
  /** The action: for an answer `accept`, `decline` or `cancel`. */
  readonly action: string;
  /** The object of the action: for an answer `task`, `question`, `agent` and `message`. */
  readonly object: Readonly<Record<string, string>>;
  /** `requested` (written before the effect, see `required`), `done`, `refused` or `failed`. */
  readonly outcome: string;
  /** Further facts, such as the code of the error. Never the content of an answer. */
  readonly details?: Readonly<Record<string, string | number>>;
}

/** A record before it has its time. */
export type AuditEntry = Omit<AuditRecord, 'at'>;

/** Stores a record; resolves when it is stored. */
export type AuditSink = (record: AuditRecord) => Promise<void> | void;

/** Where the audit log goes: to a file or to a function. */
export interface AuditOptions {
  /**
   * Appends JSON lines to this file (mode 0600), each flushed to the disk. Operators read it at
   * `/api/audit`.
   */
  readonly file?: string;
  /** Gets each record. */
  readonly sink?: AuditSink;
  /**
   * Refuses actions that cannot be recorded: an answer is recorded as `requested` first, and an
   * answer or a sign-in fails with 503 if its record fails. By default a record that cannot be
   * stored goes to the logger as an error, and the request continues.
   */
  readonly required?: boolean;
}

/** The open audit log of a server. */
export interface Audit extends AsyncDisposable {
  /**
   * If records are `required`: resolves when it is stored, or rejects. Else resolves immediately.
   */
  record(entry: AuditEntry): Promise<void>;
  readonly required: boolean;
  readonly routes: readonly HttpRoute[];
}

/** How many records may wait for a slow disk or sink. Further ones go to the logger as errors. */
const MAX_PENDING = 1000;

/**
 * How many of them may be of one actor, so that one caller cannot push out the records of others.
 */
const MAX_PENDING_PER_ACTOR = MAX_PENDING / 2;

/**
 * How many answers of a refused turn are recorded; the last record counts those that are omitted.
 */
const MAX_REFUSED = 10;

/** The limit for ids in a record. Callers choose some of them, and a turn has one per answer. */
const MAX_ID_CHARS = 256;

/**
 * How many refused sign-ins are recorded one by one. Beyond that only their number is recorded:
 * without this limit anyone could fill the disk.
 */
const REFUSAL_BURST = 100;
const REFUSALS_PER_SECOND = 1;

/** Opens the audit log. Throws `invalid` if its file cannot be written. */
export async function openAudit(
  given: AuditOptions | false | undefined,
  defaultFile: string | undefined,
  logger: Logger,
  now: () => number = Date.now,
): Promise<Audit> {
  const options = readOptions(given, defaultFile, logger);
  const { required = false } = options;
  const file = options.file === undefined ? undefined : await openAuditFile(options.file);
  const write: AuditSink = file?.write ?? options.sink ?? (() => {});
  const limit = refusalLimit(now);
  const pending = new Set<Promise<void>>();
  const waiting = new Map<string, number>();
  const keep = async (record: AuditRecord): Promise<void> => {
    const own = waiting.get(record.actor) ?? 0;
    try {
      if (pending.size >= MAX_PENDING || own >= MAX_PENDING_PER_ACTOR)
        throw new DuolaneError(
          'overloaded',
          `cannot queue an audit record: ${pending.size} are waiting, ${own} of them of this actor`,
        );
      await write(record);
    } catch (error) {
      logger.error('cannot write an audit record', { error: String(error), record });
      if (required)
        throw new DuolaneError('server', 'cannot write the audit log', { cause: error });
    }
  };
  return {
    required,
    async record(entry) {
      const suppressed = limit(entry);
      if (suppressed === 'drop') return;
      const { details: given, ...facts } = entry;
      const details = { ...given, ...(suppressed > 0 && { suppressed }) };
      const kept = keep({
        at: new Date(now()).toISOString(),
        ...facts,
        ...(Object.keys(details).length > 0 && { details }),
      });
      const settled = kept.catch(() => {}); // `await kept` below throws the failure
      const { actor } = facts;
      pending.add(settled);
      waiting.set(actor, (waiting.get(actor) ?? 0) + 1);
      settled
        .then(() => {
          pending.delete(settled);
          const rest = (waiting.get(actor) ?? 1) - 1;
          if (rest > 0) waiting.set(actor, rest);
          else waiting.delete(actor);
        })
        .catch(reportUnexpected);
      // A slow disk must not slow down requests that do not depend on the record.
      if (required) await kept;
    },
    routes: options.file === undefined ? [] : [readRoute(options.file)],
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await Promise.all(pending);
      await file?.[Symbol.asyncDispose]();
    }),
  };
}

function readOptions(
  given: AuditOptions | false | undefined,
  defaultFile: string | undefined,
  logger: Logger,
): AuditOptions {
  if (given === false) return {};
  const toLog: AuditOptions = { sink: (record) => logger.info('audit', { ...record }) };
  const fallback = defaultFile === undefined ? toLog : { file: defaultFile };
  if (given === undefined) return fallback;
  const { file, sink } = given;
  if (file !== undefined && sink !== undefined)
    throw new DuolaneError('invalid', 'audit has both "file" and "sink"; set one of them');
  if (file !== undefined && (typeof file !== 'string' || file === ''))
    throw new DuolaneError('invalid', 'invalid audit.file: expected the path of a file');
  if (sink !== undefined && typeof sink !== 'function')
    throw new DuolaneError('invalid', 'invalid audit.sink: expected a function');
  return file === undefined && sink === undefined ? { ...fallback, ...given } : given;
}

/**
 * A runner that records answers, and a listener for answers that are refused before they reach it.
 */
export interface AuditedAnswers {
  readonly runner: Runner;
  readonly onRefusedAnswers: OnRefusedAnswers;
}

/**
 * Wraps the runner so that every answer to a question is recorded, whichever protocol it came by.
 * Of a refused turn only the first answers are recorded, so that a caller cannot flood the log.
 */
export function auditAnswers(
  runner: Runner,
  audit: Pick<Audit, 'record' | 'required'>,
): AuditedAnswers {
  const recordAll = async (
    { owner = '', task, context = '', agent, messageId = '', answers }: RefusedAnswers,
    outcome: string,
    details: AuditRecord['details'] = {},
    most: number = MAX_ANSWERS,
  ): Promise<void> => {
    const omitted = Math.max(0, answers.length - most);
    for (const [index, { id, action, content }] of answers.slice(0, most).entries())
      await audit.record({
        kind: 'answer',
        actor: owner,
        action: action ?? '',
        object: {
          ...(task === undefined ? { context: truncateId(context) } : { task: truncateId(task) }),
          question: truncateId(id),
          agent: truncateId(agent),
          message: truncateId(messageId),
        },
        outcome,
        details: {
          ...details,
          // The record says that the person changed the call; the task holds the change itself.
          ...(content !== undefined && { content: 'given' }),
          ...(omitted > 0 && index === most - 1 && { omitted }),
        },
      });
  };
  const onRefusedAnswers: OnRefusedAnswers = async (refused, error) => {
    const { code } = DuolaneError.from(error);
    // `record` has logged a failure already.
    await recordAll(refused, 'refused', { code }, MAX_REFUSED).catch(() => {});
  };
  const refuse = async (refused: RefusedAnswers, error: unknown): Promise<never> => {
    await onRefusedAnswers(refused, error);
    throw error;
  };
  const audited: Runner = {
    async submit(turn) {
      const { answers = [] } = turn;
      if (answers.length === 0) return runner.submit(turn);
      const given = { ...turn, answers };
      if (answers.length > MAX_ANSWERS)
        return refuse(
          given,
          new DuolaneError(
            'invalid',
            `invalid turn: expected at most ${MAX_ANSWERS} answers, got ${answers.length}`,
          ),
        );
      if (audit.required) await recordAll(given, 'requested');
      let entry;
      try {
        entry = await runner.submit(turn);
      } catch (error) {
        return refuse(given, error);
      }
      // The answers are in the task by now. If a failed record threw here, they would look refused.
      await recordAll(given, 'done').catch(() => {});
      return entry;
    },
    [Symbol.asyncDispose]: () => runner[Symbol.asyncDispose](),
  };
  return { runner: audited, onRefusedAnswers };
}

const truncateId = (id: string): string =>
  id.length > MAX_ID_CHARS ? `${id.slice(0, MAX_ID_CHARS)}…` : id;

interface AuditFile extends AsyncDisposable {
  readonly write: AuditSink;
}

/**
 * Opens the file and appends one record after the other. After a failed write the file is opened
 * again, so that the log recovers when the disk does.
 */
async function openAuditFile(path: string): Promise<AuditFile> {
  let handle: FileHandle | undefined;
  const opened = async (): Promise<FileHandle> => (handle ??= await open(path, 'a', 0o600));
  let isTorn: boolean;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await opened();
    // A crash or a failed write may have left half a line. The next record must not be appended to
    // it.
    isTorn = await endsInLine(path);
  } catch (cause) {
    throw new DuolaneError(
      'invalid',
      `cannot write the audit log "${path}": ${errorMessage(cause)}; choose another audit.file`,
      { cause },
    );
  }
  let last = Promise.resolve();
  const append = async (line: string): Promise<void> => {
    const file = await opened();
    try {
      await file.appendFile(isTorn ? `\n${line}` : line);
      await file.datasync();
      isTorn = false;
    } catch (error) {
      isTorn = true;
      handle = undefined;
      await file.close().catch(() => {}); // the failure of the write is the one to report
      throw error;
    }
  };
  return {
    write(record) {
      const done = last.then(() => append(`${JSON.stringify(record)}\n`));
      last = done.catch(() => {}); // the caller gets the failure
      return done;
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await last;
      await handle?.close();
      handle = undefined;
    }),
  };
}

/** Whether the file ends in the middle of a line. */
async function endsInLine(path: string): Promise<boolean> {
  const handle = await open(path, 'r');
  try {
    const { size } = await handle.stat();
    if (size === 0) return false;
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
    return bytesRead === 1 && buffer[0] !== 0x0a;
  } finally {
    await handle.close();
  }
}

/** `GET /api/audit?since=<time>`: the records as JSON lines. */
const readRoute = (file: string): HttpRoute =>
  httpRoute('GET', '/api/audit', async ({ request, url }) => {
    const since = url.searchParams.get('since');
    if (since !== null && Number.isNaN(Date.parse(since)))
      return statusResponse(400, `invalid since "${since}": expected an ISO 8601 time`);
    const lines = createReadStream(file, { encoding: 'utf8', signal: request.signal });
    const body = since === null ? lines : Readable.from(recordsSince(lines, Date.parse(since)));
    return new Response(
      Readable.toWeb(body) as unknown as ConstructorParameters<typeof Response>[0],
      {
        headers: {
          'content-type': 'application/jsonl; charset=utf-8',
          'cache-control': 'no-store',
        },
      },
    );
  });

async function* recordsSince(
  chunks: AsyncIterable<string>,
  since: number,
): AsyncGenerator<string, void, undefined> {
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (atOf(line) >= since) yield `${line}\n`;
  }
}

/**
 * The time of a record; NaN for a line that is not one, so that it is omitted. A crash may leave
 * half a line.
 */
const atOf = (line: string): number => Date.parse(asString(asObject(tryParse(line))['at']));

/**
 * Limits the records of refused sign-ins (a token bucket). Returns `drop`, or how many were dropped
 * since the last one that was recorded.
 */
function refusalLimit(now: () => number): (entry: AuditEntry) => number | 'drop' {
  let [tokens, at, suppressed] = [REFUSAL_BURST, now(), 0];
  return ({ kind, outcome }) => {
    if (kind !== 'sign-in' || outcome !== 'refused') return 0;
    // A clock that is set back must not take tokens away.
    const elapsedMs = Math.max(0, now() - at);
    tokens = Math.min(REFUSAL_BURST, tokens + (elapsedMs / 1000) * REFUSALS_PER_SECOND);
    at = now();
    if (tokens < 1) {
      suppressed += 1;
      return 'drop';
    }
    tokens -= 1;
    const before = suppressed;
    suppressed = 0;
    return before;
  };
}
