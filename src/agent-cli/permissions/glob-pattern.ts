/** `*` stays within a folder, `**` does not, `?` is one character, `{a,b}` a choice. */
export type Glob = (path: string) => boolean;

type Token =
  | { readonly type: 'char'; readonly char: string }
  /** One character, not a slash. */
  | { readonly type: 'one' }
  /** Any number of characters; `slash`: slashes too. */
  | { readonly type: 'many'; readonly slash: boolean }
  /** Any number of whole folders with their slash: `**` and a slash. */
  | { readonly type: 'folders' };

const MAX_CHOICES = 256;

/**
 * A pattern as a test of paths. It follows all ways to read the pattern at the same time, so its
 * cost is the length of the pattern times the length of the path, whatever the pattern is: a model
 * writes it, and a regular expression made of it can be made to backtrack for minutes. More than
 * 256 choices throw a RangeError.
 */
export function globMatcher(glob: string): Glob {
  const choices = expand(glob.replace(/^\.\//, '')).map(tokenize);
  return (path) => choices.some((tokens) => matches(tokens, path));
}

/** Every choice of `{a,b}` written out; a brace without its other one is a character. */
function expand(glob: string): string[] {
  let done = [''];
  let rest = glob;
  for (;;) {
    const found = /\{([^{}]*)\}/.exec(rest);
    if (!found) return done.map((text) => text + rest);
    const before = rest.slice(0, found.index);
    const words = (found[1] ?? '').split(',');
    if (done.length * words.length > MAX_CHOICES)
      throw new RangeError(`a pattern exceeds ${MAX_CHOICES} choices: ${glob.slice(0, 200)}`);
    done = done.flatMap((text) => words.map((word) => text + before + word));
    rest = rest.slice(found.index + found[0].length);
  }
}

function tokenize(glob: string): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < glob.length; at++) {
    const char = glob.charAt(at);
    if (glob.startsWith('**/', at)) {
      tokens.push({ type: 'folders' });
      at += 2;
    } else if (glob.startsWith('**', at)) {
      tokens.push({ type: 'many', slash: true });
      at += 1;
    } else if (char === '*') tokens.push({ type: 'many', slash: false });
    else if (char === '?') tokens.push({ type: 'one' });
    else tokens.push({ type: 'char', char });
  }
  return tokens;
}

/** `reached[i]`: the path up to here can be what the first `i` tokens stand for. */
function matches(tokens: readonly Token[], path: string): boolean {
  const count = tokens.length;
  let [reached, before] = [new Uint8Array(count + 1), new Uint8Array(count + 1)];
  // Inside the name of a folder that token `i` is taking.
  let [within, inside] = [new Uint8Array(count + 1), new Uint8Array(count + 1)];
  reached[0] = 1;
  for (let at = 0; ; at++) {
    for (let i = 0; i < count; i++) {
      const type = tokens[i]?.type;
      if (reached[i] && (type === 'many' || type === 'folders')) reached[i + 1] = 1;
    }
    if (at === path.length) return reached[count] === 1;
    const char = path[at];
    [reached, before] = [before.fill(0), reached];
    [within, inside] = [inside.fill(0), within];
    for (let i = 0; i < count; i++) {
      const token = tokens[i];
      if (token?.type === 'folders') {
        if (char === '/') reached[i] = Math.max(reached[i] ?? 0, inside[i] ?? 0);
        else if (before[i] || inside[i]) within[i] = 1;
      } else if (!before[i]) continue;
      else if (token?.type === 'many') {
        if (token.slash || char !== '/') reached[i] = 1;
      } else if (token?.type === 'one' ? char !== '/' : char === token?.char) reached[i + 1] = 1;
    }
  }
}

/**
 * Whether `*` in `pattern` can be filled so that it is `text`. A character `any` in the text stands
 * for any text itself: with `some`, the two fit if there is one text that both can be; without, if
 * the pattern covers all that the text can be.
 */
export function wildcardFits(pattern: string, text: string, any = '', some = false): boolean {
  if (!some || any === '' || !text.includes(any)) return covers(pattern, text);
  // Both sides have wildcards: which beginnings of the pattern fit the text so far.
  let [reached, before] = [new Uint8Array(pattern.length + 1), new Uint8Array(pattern.length + 1)];
  reached[0] = 1;
  for (let at = 0; ; at++) {
    for (let i = 0; i < pattern.length; i++)
      if (reached[i] && pattern[i] === '*') reached[i + 1] = 1;
    if (at === text.length) return reached[pattern.length] === 1;
    [reached, before] = [before.fill(0), reached];
    if (text[at] === any) {
      const first = before.indexOf(1);
      if (first < 0) return false;
      reached.fill(1, first);
      continue;
    }
    for (let i = 0; i < pattern.length; i++) {
      if (!before[i]) continue;
      if (pattern[i] === '*') reached[i] = 1;
      else if (pattern[i] === text[at]) reached[i + 1] = 1;
    }
  }
}

/** Goes back to the last star only: never more than the product of the lengths. */
function covers(pattern: string, text: string): boolean {
  let [at, star, mark] = [0, -1, 0];
  for (let i = 0; i < text.length;) {
    if (pattern[at] === '*') {
      star = at++;
      mark = i;
    } else if (at < pattern.length && pattern[at] === text[i]) {
      at++;
      i++;
    } else if (star >= 0) {
      at = star + 1;
      i = ++mark;
    } else return false;
  }
  while (pattern[at] === '*') at++;
  return at === pattern.length;
}
