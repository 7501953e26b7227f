import { advance } from '../../event/fold/advance.ts';
import { beginning, slimSnapshot, slimTurn } from '../../event/fold/slim-snapshot.ts';
import type { Entry, Snapshot } from '../../event/types.ts';

/**
 * Folds the entries of a task for a stream. After `forget` it keeps only what later events need:
 * the state, the ids of the turns, and the beginning of the run's text. Without it, a thousand
 * streams that replay would each hold a copy of all texts and artifacts of their tasks.
 */
export class SlimFold {
  snapshot: Snapshot | undefined;
  readonly #keepChars: number;
  #slim = false;
  #restored = false;
  /** The length of the run's text, now and at its last step; also of text that was not kept. */
  #length = 0;
  #step = 0;

  /** `keepChars`: how many characters of the run's text are always kept. */
  constructor(keepChars: number) {
    this.#keepChars = keepChars;
  }

  advance(entry: Entry): Snapshot {
    const kept = this.#slim ? slimEntry(entry, this.#room()) : entry;
    const now = (this.snapshot = advance(this.snapshot, kept));
    this.#count(entry, now);
    return now;
  }

  /** The text of the run, which ends with `last`. Of the text before `last` only the kept part. */
  textUpTo(last: string): string {
    const { text = '' } = this.snapshot ?? {};
    const before = this.#length - last.length;
    return text.length === this.#length || before < 0 ? text : text.slice(0, before) + last;
  }

  /** Drops everything that later events do not need, now and for each further entry. */
  forget(): void {
    if (this.#slim || this.#restored) return;
    this.#slim = true;
    if (this.snapshot) this.snapshot = slimSnapshot(this.snapshot, this.#keepChars);
  }

  /**
   * Continues a fold that another one made. `isSlim`: the snapshot has only the beginning of the
   * run's text, which has `chars` characters, and none of the other texts.
   */
  seek(snapshot: Snapshot, chars: number, isSlim: boolean): void {
    this.snapshot = snapshot;
    this.#slim = isSlim;
    this.#length = chars;
    this.#step = snapshot.mark?.text ?? 0;
  }

  /**
   * Whether encoding this entry needs text that was dropped; call `restore` before `advance` if so.
   * Two entries need it: a retry that keeps the text of earlier steps, and a failed run without an
   * error, whose text is the message of the failure.
   */
  lacks(entry: Entry): boolean {
    if (!this.#slim) return false;
    switch (entry.type) {
      case 'retry':
        return (
          entry.discard &&
          !entry.path?.length &&
          Math.min(this.#step, this.#length) > this.#keepChars
        );
      case 'run.finished':
        return (
          (entry.outcome === 'failed' || entry.outcome === 'rejected') &&
          !entry.error &&
          this.#length > this.#keepChars
        );
      default:
        return false;
    }
  }

  /** Continues with the complete task up to here, and keeps everything from now on. */
  restore(complete: Snapshot): void {
    this.#slim = false;
    this.#restored = true;
    this.snapshot = complete;
  }

  #room(): number {
    return Math.max(0, this.#keepChars - (this.snapshot?.text.length ?? 0));
  }

  #count(entry: Entry, now: Snapshot): void {
    if ('path' in entry && entry.path?.length) return;
    switch (entry.type) {
      case 'text.delta':
        this.#length += entry.delta.length;
        break;
      case 'run.started':
        // A resumed run keeps its text; a new one begins with none.
        if (now.text === '') this.#length = 0;
        this.#step = this.#length;
        break;
      case 'step.started':
      case 'step.finished':
        this.#step = this.#length;
        break;
      case 'retry':
        if (entry.discard) this.#length = Math.min(this.#length, this.#step);
        break;
      default:
    }
  }
}

/** The entry without its long members; of a text delta, at most `room` characters. */
function slimEntry(entry: Entry, room: number): Entry {
  switch (entry.type) {
    case 'text.delta':
      return entry.path?.length || entry.delta.length <= room
        ? entry
        : { ...entry, delta: beginning(entry.delta, room) };
    case 'turn.submitted':
      return { ...entry, turn: slimTurn(entry.turn) };
    case 'tool.called':
      return { ...entry, args: null };
    case 'artifact':
      return { ...entry, parts: [] };
    default:
      return entry;
  }
}
