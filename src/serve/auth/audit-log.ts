import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { createReadStream } from 'node:fs';
import { mkdir, open, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { MAX_ANSWERS } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Logger } from '../../event/types.ts';
import type { OnRefusedAnswers, RefusedAnswers, Runner } from '../../task/types.ts';
import { statusResponse, type HttpRoute } from '../router.ts';

/** What happened, who did it, to what, and how it ended. Records are only ever added. */
export interface AuditRecord {
  /** ISO 8601, UTC. */
  readonly at: string;
  /** `sign-in`, `sign-out`, `answer`; programs add kinds of their own, such as `policy`. */
  readonly kind: string;
  /** The owner; empty where there is none, or none is known. */
  readonly actor: string;
  /** What was done: for an answer `accept`, `decline` or `cancel`. */
  readonly action: string;
  /** What it was done to: for an answer `task`, `question`, `agent` and `message`. */
  readonly object: Readonly<Record<string, string>>;
  /** `requested` (written before the effect, see `required`), `done`, `refused` or `failed`. */
  readonly outcome: string;
  /** Further facts, such as the code of the error. Never the content of an answer. */
  readonly details?: Readonly<Record<string, string | number>>;
}

/** A record before it has its time. */
export type AuditEntry = Omit<AuditRecord, 'at'>;

/** Keeps a record; resolves when it is kept. */
export type AuditSink = (record: AuditRecord) => Promise<void> | void;

/** Where the audit log goes: to one of the two. */
export interface AuditOptions {
  /** JSON lines are appended to this file (mode 0600), each flushed to the disk. Operators read it at `/api/audit`. */
  readonly file?: string;
  readonly sink?: AuditSink;
  /**
   * Refuses what cannot be recorded: an answer is recorded as `requested` first, and it or a sign-in
   * fails with 503 if the record fails. By default a record that cannot be kept goes to the logger as an
   * error, and the request goes on.
   */
  readonly required?: boolean;
}

export interface Audit extends AsyncDisposable {
  /** If records are `required`, resolves when it is kept, or rejects; otherwise resolves at once. */
  record(entry: AuditEntry): Promise<void>;
  readonly required: boolean;
  readonly routes: readonly HttpRoute[];
}

/** Records that wait for a slow disk or sink; the next ones go to the logger as errors. */
const MAX_PENDING = 1000;

/** Of those, the ones of one actor: a caller who floods the log must not push out the records of others. */
const MAX_PENDING_PER_ACTOR = MAX_PENDING / 2;

/** Answers of a refused turn that are recorded one by one; the last record says how many were left out. */
const MAX_REFUSED = 10;

/** Longer ids are cut in a record. A caller chooses some of them, and a turn has one for each answer. */
const MAX_ID_CHARS = 256;

/** Refused sign-ins that are recorded one by one; beyond that only their number, so no stranger fills the disk. */
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
          `${pending.size} audit records wait to be written, ${own} of them of this actor`,
        );
      await write(record);
    } catch (error) {
      logger.error('an audit record cannot be written', { error: String(error), record });
      if (required)
        throw new DuolaneError('server', 'the audit log cannot be written', { cause: error });
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
      const settled = kept.catch(() => {}); // whoever waits for `kept` gets the failure
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
    throw new DuolaneError('invalid', 'audit has both "file" and "sink"; give one of them');
  if (file !== undefined && (typeof file !== 'string' || file === ''))
    throw new DuolaneError('invalid', 'invalid audit.file: expected the path of a file');
  if (sink !== undefined && typeof sink !== 'function')
    throw new DuolaneError('invalid', 'invalid audit.sink: expected a function');
  return file === undefined && sink === undefined ? { ...fallback, ...given } : given;
}

/** A runner that records answers, and what to call with answers that are refused before it sees them. */
export interface AuditedAnswers {
  readonly runner: Runner;
  readonly onRefusedAnswers: OnRefusedAnswers;
}

/**
 * The runner, with a record for every answer to a question, whichever protocol brought it. What a caller
 * writes into records has a limit: of a turn that is refused only the first answers are recorded.
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
          ...(task === undefined ? { context: cut(context) } : { task: cut(task) }),
          question: cut(id),
          agent: cut(agent),
          message: cut(messageId),
        },
        outcome,
        details: {
          ...details,
          // That the person changed what will run matters; what was changed is in the task.
          ...(content !== undefined && { content: 'given' }),
          ...(omitted > 0 && index === most - 1 && { omitted }),
        },
      });
  };
  const onRefusedAnswers: OnRefusedAnswers = async (refused, error) => {
    const { code } = DuolaneError.from(error);
    await recordAll(refused, 'refused', { code }, MAX_REFUSED).catch(() => {}); // `record` has reported it
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
            `a turn has at most ${MAX_ANSWERS} answers, got ${answers.length}`,
          ),
        );
      if (audit.required) await recordAll(given, 'requested');
      let entry;
      try {
        entry = await runner.submit(turn);
      } catch (error) {
        return refuse(given, error);
      }
      // The answers are in the task by now: a record that fails here must not make them look refused.
      await recordAll(given, 'done').catch(() => {});
      return entry;
    },
    [Symbol.asyncDispose]: () => runner[Symbol.asyncDispose](),
  };
  return { runner: audited, onRefusedAnswers };
}

const cut = (id: string): string =>
  id.length > MAX_ID_CHARS ? `${id.slice(0, MAX_ID_CHARS)}…` : id;

interface AuditFile extends AsyncDisposable {
  readonly write: AuditSink;
}

async function openAuditFile(path: string): Promise<AuditFile> {
  let handle: FileHandle | undefined;
  const opened = async (): Promise<FileHandle> => (handle ??= await open(path, 'a', 0o600));
  let isTorn: boolean;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await opened();
    // A write that failed, or a crash, may have left half a line; the next record must not be joined to it.
    isTorn = await endsInLine(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `cannot write the audit log "${path}": ${reason}`, { cause });
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

const readRoute = (file: string): HttpRoute => ({
  method: 'GET',
  path: '/api/audit',
  async handle({ request, url }) {
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
  },
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

/** A line that is torn has no time, and is left out. */
function atOf(line: string): number {
  try {
    return Date.parse((JSON.parse(line) as Partial<AuditRecord>).at ?? '');
  } catch {
    // A crash may leave half a line.
    return Number.NaN;
  }
}

/** How many refused sign-ins were left out before this entry, or that it is left out itself. */
function refusalLimit(now: () => number): (entry: AuditEntry) => number | 'drop' {
  let [left, at, suppressed] = [REFUSAL_BURST, now(), 0];
  return ({ kind, outcome }) => {
    if (kind !== 'sign-in' || outcome !== 'refused') return 0;
    left = Math.min(REFUSAL_BURST, left + (Math.max(0, now() - at) / 1000) * REFUSALS_PER_SECOND);
    at = now();
    if (left < 1) {
      suppressed += 1;
      return 'drop';
    }
    left -= 1;
    const before = suppressed;
    suppressed = 0;
    return before;
  };
}
