import { lexer, type Token } from 'marked';

/**
 * Limits for text of a model. The regular expressions of the parser take quadratic time on some
 * texts, and it recurses once per level of nesting. So a text is parsed in slices, and a slice that
 * is too long, nested too deeply, or beyond the time budget is shown unparsed.
 */
const SLICE_CHARS = 16_000;
const MAX_DEPTH = 32;
const BUDGET_MS = 300;

/** A piece of the text; without tokens it is shown unparsed. */
export interface Slice {
  readonly text: string;
  readonly tokens?: readonly Token[];
}

/** Splits a growing text into slices and parses only those that changed since the last call. */
export class MarkdownSlices {
  readonly #now: () => number;
  #known = new Map<string, Slice>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  read(text: string): readonly Slice[] {
    const known = new Map<string, Slice>();
    let spentMs = 0;
    const slices = split(text).map((part): Slice => {
      const before = this.#known.get(part);
      if (before) return before;
      if (spentMs > BUDGET_MS) return { text: part };
      const start = this.#now();
      const slice = parse(part);
      spentMs += this.#now() - start;
      return slice;
    });
    for (const slice of slices) known.set(slice.text, slice);
    this.#known = known;
    return slices;
  }
}

function parse(text: string): Slice {
  if (text.length > SLICE_CHARS || text.split('\n').some((line) => depthOf(line) > MAX_DEPTH))
    return { text };
  try {
    return { text, tokens: lexer(text) };
  } catch {
    return { text }; // nested too deeply in a way that `depthOf` does not count
  }
}

/** Counts the lists and quotes that a line opens. */
function depthOf(line: string): number {
  let depth = 0;
  for (let at = 0; at < line.length && depth <= MAX_DEPTH; at++) {
    const char = line.charAt(at);
    if (char === ' ' || char === '\t') continue;
    const isMark = '>-*+'.includes(char) || ((char === '.' || char === ')') && at > 0);
    if (isMark) depth++;
    else if (char < '0' || char > '9') break;
  }
  return depth;
}

/**
 * Splits at blank lines outside of code. A list, a table or a block of code stays in one slice
 * unless it is longer than a slice.
 */
function split(text: string): readonly string[] {
  if (text.length <= SLICE_CHARS) return [text];
  const slices: string[] = [];
  let slice = '';
  for (const block of blocksOf(text)) {
    if (slice !== '' && slice.length + block.length > SLICE_CHARS) {
      slices.push(slice);
      slice = '';
    }
    slice += block;
  }
  return slice === '' ? slices : [...slices, slice];
}

/** Yields the text up to and including each blank line that is not in code. */
function* blocksOf(text: string): Generator<string, void, undefined> {
  let fence = '';
  for (let from = 0, at = 0; from < text.length;) {
    const end = text.indexOf('\n\n', at);
    const to = end === -1 ? text.length : end + 2;
    fence = fenceAfter(text.slice(at, to), fence);
    at = to;
    if (fence !== '' && to < text.length) continue;
    yield text.slice(from, to);
    from = to;
  }
}

/** The fence of the code that is open after the block; '' if it is closed. */
function fenceAfter(block: string, open: string): string {
  let fence = open;
  for (const line of block.split('\n')) {
    const mark = line.trimStart().slice(0, 3);
    if (fence === '' && (mark === '```' || mark === '~~~')) fence = mark;
    else if (fence !== '' && mark === fence) fence = '';
  }
  return fence;
}
