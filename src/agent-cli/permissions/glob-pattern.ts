/**
 * A compiled glob: `*` matches within a folder, `**` across folders, `?` one character, `{a,b}` one
 * of the alternatives.
 */
export type Glob = (path: string) => boolean;

type Token =
  | { readonly type: 'char'; readonly char: string }
  /** Any character except a slash. */
  | { readonly type: 'one' }
  /** Any number of characters; with `slash` including slashes. */
  | { readonly type: 'many'; readonly slash: boolean }
  /** Any number of complete folder names, each with its slash: `**` followed by a slash. */
  | { readonly type: 'folders' };

const MAX_CHOICES = 256;

/**
 * Compiles a glob. The matcher follows all readings of the pattern in parallel, so its time is
 * bounded by the length of the pattern times the length of the path. A regular expression would not
 * be safe: the model writes the pattern, and could make it backtrack for minutes. Throws a
 * RangeError for a pattern with more than 256 alternatives.
 */
export function globMatcher(glob: string): Glob {
  const choices = expand(glob.replace(/^\.\//, '')).map(tokenize);
  return (path) => choices.some((tokens) => matches(tokens, path));
}

/** Expands `{a,b}` into all alternatives; an unpaired brace is an ordinary character. */
function expand(glob: string): string[] {
  let done = [''];
  let rest = glob;
  for (;;) {
    const found = /\{([^{}]*)\}/.exec(rest);
    if (!found) return done.map((text) => text + rest);
    const before = rest.slice(0, found.index);
    const choices = (found[1] ?? '').split(',');
    if (done.length * choices.length > MAX_CHOICES)
      throw new RangeError(
        `pattern "${glob.slice(0, 200)}" has more than ${MAX_CHOICES} alternatives; use a simpler one`,
      );
    done = done.flatMap((text) => choices.map((choice) => text + before + choice));
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

/**
 * Simulates the tokens as an automaton. `reached[i]`: the first `i` tokens match the path so far.
 */
function matches(tokens: readonly Token[], path: string): boolean {
  const count = tokens.length;
  let [reached, before] = [new Uint8Array(count + 1), new Uint8Array(count + 1)];
  // `within[i]`: the path so far ends inside a folder name that token `i` matches.
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
 * Whether `pattern`, in which `*` matches any characters, matches `text`. The character `any` in
 * the text is a wildcard, too: it stands for a value that is not known. With `some`, one value for
 * which the pattern matches is enough; without, the pattern must match for every value.
 */
export function wildcardFits(pattern: string, text: string, any = '', some = false): boolean {
  if (!some || any === '' || !text.includes(any)) return covers(pattern, text);
  // Both sides have wildcards. `reached[i]`: the first `i` characters of the pattern match so far.
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

/** Backtracks to the last star only, so the time is bounded by the product of the lengths. */
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
