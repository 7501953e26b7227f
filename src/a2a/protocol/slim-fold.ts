import { advance } from '../../event/fold/advance.ts';
import type { Answer } from '../../ask.ts';
import type { Artifact, Entry, Part, Snapshot, Turn } from '../../event/types.ts';

/**
 * A task as a stream has to know it, once the client has the rest: its state, its turns by their ids, and of the text
 * of its run only the beginning. A thousand streams that replay would otherwise each hold a copy of all that their
 * tasks have said and made.
 */
export class SlimFold {
  snapshot: Snapshot | undefined;
  readonly #keepChars: number;
  #slim = false;
  #restored = false;
  /** How long the text of the run is, and was at its last step. */
  #length = 0;
  #step = 0;

  /** Of the text, so much is kept at least. */
  constructor(keepChars: number) {
    this.#keepChars = keepChars;
  }

  advance(entry: Entry): Snapshot {
    const kept = this.#slim ? slimEntry(entry, this.#room()) : entry;
    const now = (this.snapshot = advance(this.snapshot, kept));
    this.#count(entry, now);
    return now;
  }

  /** The text of the run, which ends with `last`; of what came before that, no more than is kept. */
  textUpTo(last: string): string {
    const { text = '' } = this.snapshot ?? {};
    const before = this.#length - last.length;
    return text.length === this.#length || before < 0 ? text : text.slice(0, before) + last;
  }

  /** From now on only the beginning is kept. */
  forget(): void {
    if (this.#slim || this.#restored) return;
    this.#slim = true;
    const { snapshot } = this;
    if (!snapshot) return;
    const { text, turns, unserved, current, artifacts, answers, ...rest } = snapshot;
    this.snapshot = {
      ...rest,
      text: beginning(text, this.#keepChars),
      turns: turns.map(slimTurn),
      unserved: unserved.map(slimTurn),
      ...(current && { current: slimTurn(current) }),
      artifacts: artifacts.map(slimArtifact),
      answers: answers.map(slimAnswer),
      said: [],
    };
  }

  /** Whether this entry shows text that was not kept; then `restore` comes before `advance`. */
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

  /** The whole task up to here, which is kept from now on. */
  restore(whole: Snapshot): void {
    this.#slim = false;
    this.#restored = true;
    this.snapshot = whole;
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
        // It goes on with the text that there is, or begins anew.
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

/** What is left of an entry when nothing long of it is kept. */
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

const NO_WORDS: readonly Part[] = [{ text: '' }];

// That it has parts is what makes it a turn to serve.
const slimTurn = ({ agent, task, context, messageId, parts, answers }: Turn): Turn => ({
  agent,
  task,
  context,
  messageId,
  parts: parts.length > 0 ? NO_WORDS : [],
  ...(answers && { answers: answers.map(slimAnswer) }),
});

const slimAnswer = ({ id, action }: Answer): Answer => ({ id, action });

const slimArtifact = ({ artifactId }: Artifact): Artifact => ({ artifactId, parts: [] });

/** A copy: a piece of a string would keep all of it in memory. */
const beginning = (text: string, chars: number): string =>
  text.length <= chars ? text : (JSON.parse(JSON.stringify(text.slice(0, chars))) as string);
