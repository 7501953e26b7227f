import { decodeEntry } from '../../event/entry-codec.ts';
import type { Entry, Seq } from '../../event/types.ts';
import { isDamage } from './page-builder.ts';
import type { EntryRow } from './store.ts';

/**
 * Returns the rows of an ended task that others repeat: deltas whose block has its `*.end`, which
 * has the complete text, and pieces of arguments whose `tool.called` has them all. The deltas of an
 * interrupted block stay, since no other row has their text.
 */
export function compactableRows(rows: Iterable<EntryRow>): Seq[] {
  const open = new Map<string, Seq[]>();
  const disposable: Seq[] = [];
  for (const { seq, line } of rows) {
    const event = decodeEntry(line);
    if (event.type === 'run.started') open.clear();
    const [block, closes] = blockOf(event);
    if (block === undefined) continue;
    const pieces = open.get(block);
    if (closes) {
      for (const piece of pieces ?? []) disposable.push(piece);
      open.delete(block);
    } else if (pieces) pieces.push(seq);
    else open.set(block, [seq]);
  }
  return disposable;
}

/** Like `compactableRows`. A task that cannot be read keeps its rows, and others are compacted. */
export function compactableIn(rows: Iterable<EntryRow>): readonly Seq[] {
  try {
    return compactableRows(rows);
  } catch (error) {
    if (!isDamage(error)) throw error;
    return [];
  }
}

function blockOf(event: Entry): [block?: string, closes?: boolean] {
  const path = 'path' in event ? JSON.stringify(event.path) : '';
  switch (event.type) {
    case 'text.delta':
    case 'text.end':
      return [`text ${path} ${event.id}`, event.type === 'text.end'];
    case 'reasoning.delta':
    case 'reasoning.end':
      return [`reasoning ${path} ${event.id}`, event.type === 'reasoning.end'];
    case 'tool.args':
    case 'tool.called':
      return [`tool ${path} ${event.callId}`, event.type === 'tool.called'];
    default:
      return [];
  }
}
