import type { Failure } from '../../errors.ts';
import { advance } from '../../event/index.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import type { Seq } from '../../event/types.ts';
import { numberLine } from '../store/line-codec.ts';
import type {
  AppendRequest,
  Commit,
  EntryRow,
  StoreMethods,
  SubmitRequest,
} from '../store/store.ts';

/*
 * The messages between a log and the thread of its file. Nearly all of them are appends, so these
 * are packed: calls as flat arrays, since objects repeat their member names, and replies as a
 * number, since the caller has the rest.
 */

export interface ThreadCall {
  readonly id: number;
  readonly method: keyof StoreMethods;
  readonly args: readonly unknown[];
}

export type ThreadReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: Failure }
  /** Not done, since the other replies of the message are long enough. The caller asks again. */
  | { readonly id: number; readonly again: true };

/** A call that was done or refused, with its commits. */
export interface Done {
  readonly reply: ThreadReply;
  readonly commits: readonly Commit[];
}

/**
 * Calls in order: id, task, epoch, position, count and lines of an append; other calls as objects.
 */
export type PackedCalls = readonly (ThreadCall | number | string)[];

export function packCalls(calls: readonly ThreadCall[]): PackedCalls {
  const packed: (ThreadCall | number | string)[] = [];
  for (const call of calls) {
    if (call.method !== 'append') packed.push(call);
    else {
      const { task, epoch, after, events } = call.args[0] as AppendRequest;
      packed.push(call.id, task, epoch, after, events.length);
      for (const event of events) packed.push(event);
    }
  }
  return packed;
}

export function unpackCalls(packed: PackedCalls): ThreadCall[] {
  const calls: ThreadCall[] = [];
  for (let at = 0; at < packed.length;) {
    const item = packed[at] as ThreadCall | number;
    if (typeof item === 'object') {
      calls.push(item);
      at++;
    } else {
      const [task, epoch, after] = packed.slice(at + 1, at + 4) as [string, number, Seq];
      const from = at + 5;
      at = from + (packed[at + 4] as number);
      const events = packed.slice(from, at) as string[];
      calls.push({ id: item, method: 'append', args: [{ task, epoch, after, events }] });
    }
  }
  return calls;
}

/** Replies in order: id, head and flags of an append or a new task; other replies as objects. */
export type PackedDone = readonly (Done | number)[];

const [CLAIMED, ENDED, CLAIMABLE] = [1, 2, 4];

export function packDone(calls: readonly ThreadCall[], done: readonly Done[]): PackedDone {
  const methods = new Map(calls.map(({ id, method }) => [id, method]));
  const packed: (Done | number)[] = [];
  for (const each of done) {
    const { id } = each.reply;
    const [commit] = each.commits;
    const method = methods.get(id);
    // The first entry of a task is always the submitted turn.
    if (commit && (method === 'append' || (method === 'submit' && commit.head === 1)))
      packed.push(id, commit.head, flagsOf(commit));
    else packed.push(each);
  }
  return packed;
}

const flagsOf = ({ claimed, ended, claimable }: Commit): number =>
  (claimed ? CLAIMED : 0) | (ended ? ENDED : 0) | (claimable ? CLAIMABLE : 0);

/** `callOf` returns the call with this id. */
export function unpackDone(
  packed: PackedDone,
  callOf: (id: number) => ThreadCall | undefined,
): Done[] {
  const done: Done[] = [];
  for (let at = 0; at < packed.length; at++) {
    const item = packed[at] as Done | number;
    if (typeof item === 'object') done.push(item);
    else {
      const [head, flags] = [packed[++at] as Seq, packed[++at] as number];
      const call = callOf(item);
      if (call?.method === 'submit') done.push(begun(call, flags));
      else {
        const request = call?.args[0] as AppendRequest | undefined;
        const commits = request ? [commitOf(request, head, flags)] : [];
        done.push({ reply: { id: item, value: head }, commits });
      }
    }
  }
  return done;
}

/** Rebuilds the reply and the commit of a new task: one entry, and its first claim or none. */
function begun({ id, args }: ThreadCall, flags: number): Done {
  const { note } = args[0] as SubmitRequest;
  const line = numberLine(note, 1);
  const entry = decodeEntry(line);
  const row: EntryRow = { seq: 1, note: true, line, entry };
  const snapshot = advance(undefined, entry);
  const { task } = snapshot;
  const isClaimed = (flags & CLAIMED) !== 0;
  const epoch = isClaimed ? 1 : 0;
  return {
    reply: {
      id,
      value: isClaimed ? { task, row, claim: { task, epoch, snapshot } } : { task, row },
    },
    commits: [
      {
        task,
        epoch,
        claimed: isClaimed,
        rows: [row],
        head: 1,
        ended: false,
        claimable: (flags & CLAIMABLE) !== 0,
      },
    ],
  };
}

const commitOf = (
  { task, epoch, after, events, entries = [] }: AppendRequest,
  head: Seq,
  flags: number,
): Commit => ({
  task,
  epoch,
  claimed: (flags & CLAIMED) !== 0,
  rows: events.map((event, index): EntryRow => {
    const seq = after + 1 + index;
    return { seq, note: false, line: numberLine(event, seq), entry: entries[index] };
  }),
  head,
  ended: (flags & ENDED) !== 0,
  claimable: (flags & CLAIMABLE) !== 0,
});
