/** Stands for any text in a word whose value the shell computes: `$x`, `$(…)`, `*.ts`. */
export const ANY = '\uFFFF';

/** One word of a command, without its quotes. */
export interface ShellWord {
  /** Its value, with {@link ANY} in place of each expansion. */
  readonly text: string;
  /** The shell uses the text as it is: the word has no expansion and no file name pattern. */
  readonly literal: boolean;
  /** A part of it is quoted or escaped, so it is neither a keyword nor an assignment. */
  readonly quoted: boolean;
}

const MAX_DEPTH = 50;
/** Keywords that end a list of commands. */
export const CLOSERS: ReadonlySet<string> = new Set([
  'then',
  'else',
  'elif',
  'fi',
  'do',
  'done',
  'esac',
  '}',
]);

/** Thrown inside the parser only: the text is invalid, or shells read it differently. */
export class Unparsable extends Error {}

/**
 * Reads the words of `sh`: quotes, expansions, redirections, here-documents, comments. Its subclass
 * in `shell-command.ts` reads lists of commands, also those inside a word.
 */
export abstract class ShellReader {
  /** See `ShellScript.isSimple`. */
  isSimple = true;
  protected readonly text: string;
  protected depth: number;
  protected at = 0;
  /** Here-documents whose bodies start at the next line. */
  protected heredocs: {
    readonly end: string;
    readonly quoted: boolean;
    readonly tabs: boolean;
  }[] = [];

  constructor(text: string, depth: number) {
    this.text = text;
    this.depth = depth;
    this.enter();
  }

  /** Reads the complete text as commands. */
  abstract script(): void;
  /** Reads commands up to a closing keyword or operator, which stays. False: it read none. */
  protected abstract list(): boolean;
  /** A reader of a text inside this one, whose commands are added to those of this reader. */
  protected abstract nested(text: string): ShellReader;

  /** Counts the depth. Without a limit, a text of many `(` would overflow the call stack. */
  protected enter(): void {
    if (++this.depth > MAX_DEPTH) throw new Unparsable('too deep');
  }

  protected redirects(): void {
    this.space(false);
    while (this.redirect()) this.space(false);
  }

  protected redirect(): boolean {
    const match = /^\d*(?:<<-?(?!<)|<<<|<>|<&|>>|>&|>\||<(?!\()|>(?!\())/.exec(
      this.text.slice(this.at, this.at + 16),
    );
    if (!match) return false;
    this.isSimple = false;
    this.at += match[0].length;
    this.space(false);
    const start = this.at;
    const word = this.word();
    if (!word) throw new Unparsable('redirection');
    if (/<<-?$/.test(match[0])) {
      const written = this.text.slice(start, this.at);
      // Shells disagree about an expansion in the end mark.
      if (!word.literal || /[$`\n]/.test(written)) throw new Unparsable('here-document');
      this.heredocs.push({
        end: word.text,
        quoted: word.quoted,
        tabs: match[0].endsWith('-'),
      });
    }
    return true;
  }

  /** Reads the bodies of the open here-documents, at the start of a line. */
  #bodies(): void {
    const documents = this.heredocs;
    this.heredocs = [];
    for (const { end, quoted, tabs } of documents) {
      let body = '';
      for (;;) {
        if (this.at >= this.text.length) throw new Unparsable('here-document without end');
        const stop = this.text.indexOf('\n', this.at);
        const raw = this.text.slice(this.at, stop < 0 ? undefined : stop);
        this.at = stop < 0 ? this.text.length : stop + 1;
        const line = tabs ? raw.replace(/^\t+/, '') : raw;
        if (line === end) break;
        // Shells disagree whether a line that ends with a backslash can be the end of the body.
        if (!quoted && raw.endsWith('\\')) throw new Unparsable('continued here-document');
        body += `${line}\n`;
      }
      if (!quoted) this.nested(body).#quotedText('');
    }
  }

  /** Reads a word; undefined if none starts here. */
  protected word(): ShellWord | undefined {
    let text = '';
    let [quoted, literal, started] = [false, true, false];
    const dynamic = (): void => {
      literal = false;
      if (!text.endsWith(ANY)) text += ANY;
    };
    for (;;) {
      const char = this.peek();
      if (char === '<' || char === '>') {
        if (this.text[this.at + 1] !== '(') break;
        this.at += 2;
        this.#substitution();
        dynamic();
      } else if (char === '' || ' \t\n;&|()'.includes(char)) break;
      else if (char === "'") {
        const end = this.text.indexOf("'", this.at + 1);
        if (end < 0) throw new Unparsable("no '");
        text += this.text.slice(this.at + 1, end);
        this.at = end + 1;
        quoted = true;
      } else if (char === '"') {
        this.skip();
        const inner = this.#quotedText('"');
        if (inner.includes(ANY)) literal = false;
        text += inner;
        quoted = true;
      } else if (char === '\\') {
        this.skip();
        const next = this.text[this.at];
        if (next === undefined) throw new Unparsable('lone backslash');
        text += next;
        this.at++;
        quoted = true;
      } else if (char === '$') {
        if (this.#dollar(false)) dynamic();
        else text += '$';
      } else if (char === '`') {
        this.#backticks(false);
        dynamic();
      } else if ('*?'.includes(char) || (char === '~' && !started) || this.#isBracket(char)) {
        this.skip();
        dynamic();
      } else if (char === '{' && this.#isBraceExpansion()) {
        this.skip();
        dynamic();
      } else {
        text += char;
        this.skip();
      }
      started = true;
    }
    // Bash reads `{fd}>file` as a redirection, so that the next word is the command.
    if (/[<>]/.test(this.peek()) && /^\{.*\}$/s.test(text)) throw new Unparsable('{fd}>');
    return started ? { text, literal, quoted } : undefined;
  }

  /** Whether `[` starts a pattern such as `[a-z]`; alone it is a command. */
  #isBracket(char: string): boolean {
    return char === '[' && this.#restOfWord(']');
  }

  /** Whether `{` starts `{a,b}` or `{1..3}`, which bash expands to words and dash does not. */
  #isBraceExpansion(): boolean {
    return this.#restOfWord(',', '..');
  }

  /** Whether one of the signs follows in the word. A word above 256 characters may contain it. */
  #restOfWord(...signs: readonly string[]): boolean {
    const near = this.text.slice(this.at + 1, this.at + 257);
    const rest = /^[^\s;&|()<>]*/.exec(near)?.[0] ?? '';
    return rest.length === 256 || signs.some((sign) => rest.includes(sign));
  }

  /** Reads text in double quotes, or the body of a here-document, and consumes `end`. */
  #quotedText(end: '"' | ''): string {
    let text = '';
    for (;;) {
      const char = this.peek();
      if (char === '') {
        if (end === '') return text;
        throw new Unparsable('no "');
      }
      if (char === end) {
        this.skip();
        return text;
      }
      if (char === '\\') {
        this.skip();
        const next = this.text[this.at] ?? '';
        if (next === '') throw new Unparsable('lone backslash');
        text += '$`"\\'.includes(next) ? next : `\\${next}`;
        this.at++;
      } else if (char === '$') text += this.#dollar(true) ? ANY : '$';
      else if (char === '`') {
        this.#backticks(end === '"');
        text += ANY;
      } else {
        text += char;
        this.skip();
      }
    }
  }

  /** Reads an expansion that starts with `$`. False: it is an ordinary dollar sign. */
  #dollar(inQuotes: boolean): boolean {
    this.skip();
    const char = this.peek();
    if (char === '(') {
      this.isSimple = false;
      if (this.text[this.at + 1] === '(' && this.#arithmetic()) return true;
      this.skip();
      this.#substitution();
      return true;
    }
    if (char === '{') {
      this.#parameter(inQuotes);
      return true;
    }
    if (char === "'" && !inQuotes) {
      // In bash `$'…'` has escapes; dash reads a dollar sign and a quoted text.
      this.skip();
      const end = /^(?:[^'\\]|\\[^])*'/.exec(this.text.slice(this.at));
      if (!end || end[0].includes("\\'")) throw new Unparsable("$'");
      this.at += end[0].length;
      return true;
    }
    if (char === '"' && !inQuotes) return true;
    if (char === '[') throw new Unparsable('$[');
    if (/[A-Za-z_]/.test(char)) {
      while (/\w/.test(this.peek())) this.skip();
      return true;
    }
    if (char !== '' && '0123456789@*#?$!-'.includes(char)) {
      this.skip();
      return true;
    }
    return false;
  }

  /** Reads a list of commands inside a word, up to its closing parenthesis. */
  #substitution(): void {
    // Shells disagree where the body of an open here-document starts in this case.
    if (this.heredocs.length > 0) throw new Unparsable('substitution behind <<');
    this.isSimple = false;
    this.list();
    this.space(true);
    if (!this.take(')') || this.heredocs.length > 0) throw new Unparsable('no )');
  }

  /** Reads `$((…))`. False: the text is something else, and nothing was consumed. */
  #arithmetic(): boolean {
    const start = this.at + 2;
    let open = 2;
    let end = start;
    for (; open > 0; end++) {
      const char = this.text[end];
      if (char === undefined) throw new Unparsable('no ))');
      if (`'"\\`.includes(char)) throw new Unparsable('quotes in $((');
      if (char === '(') open++;
      if (char === ')') {
        open--;
        if (open === 1 && this.text[end + 1] !== ')') return false;
      }
    }
    this.nested(this.text.slice(start, end - 2)).#quotedText('');
    this.at = end;
    return true;
  }

  /** Reads `${…}` up to its closing brace. */
  #parameter(inQuotes: boolean): void {
    this.enter();
    this.skip();
    const start = this.at;
    // In bash, `${ command; }` and `${| command; }` run a command.
    if (/[\s|]/.test(this.peek())) throw new Unparsable('${ ');
    for (;;) {
      const char = this.peek();
      if (char === '') throw new Unparsable('no }');
      if (char === '}') break;
      if (char === "'") {
        // Shells disagree whether it is a quote here.
        if (inQuotes) throw new Unparsable("' in ${");
        const end = this.text.indexOf("'", this.at + 1);
        if (end < 0) throw new Unparsable("no '");
        this.at = end + 1;
      } else if (char === '"') {
        if (inQuotes) throw new Unparsable('" in ${');
        this.skip();
        this.#quotedText('"');
      } else if (char === '\\') {
        this.skip();
        if (this.at++ >= this.text.length) throw new Unparsable('lone backslash');
      } else if (char === '$') this.#dollar(inQuotes);
      else if (char === '`') this.#backticks(inQuotes);
      else this.skip();
    }
    // `${x@P}` expands the value of the variable like a prompt, which runs its substitutions.
    if (/@[A-Za-z]$/.test(this.text.slice(start, this.at))) throw new Unparsable('${x@P}');
    this.skip();
    this.depth--;
  }

  #backticks(inQuotes: boolean): void {
    this.skip();
    let text = '';
    for (;;) {
      const char = this.text[this.at++];
      if (char === undefined) throw new Unparsable('no `');
      if (char === '`') break;
      if (char !== '\\') {
        text += char;
        continue;
      }
      const next = this.text[this.at++] ?? '';
      text += '$`\\'.includes(next) || (inQuotes && next === '"') ? next : `\\${next}`;
    }
    this.nested(text).script();
  }

  /** The next character, after any line continuations (a backslash and a line end). */
  protected peek(): string {
    while (this.text.startsWith('\\\n', this.at)) this.at += 2;
    return this.text[this.at] ?? '';
  }

  protected skip(): void {
    this.peek();
    this.at++;
  }

  /** Skips blanks and comments, and with `lines` also line ends. */
  protected space(lines: boolean): void {
    for (;;) {
      const char = this.peek();
      if (char === ' ' || char === '\t') this.at++;
      else if (char === '#') {
        const end = this.text.indexOf('\n', this.at);
        this.at = end < 0 ? this.text.length : end;
      } else if (!lines || !this.newline()) return;
    }
  }

  protected newline(): boolean {
    if (this.peek() !== '\n') return false;
    this.at++;
    this.#bodies();
    return true;
  }

  protected has(sign: string): boolean {
    this.peek();
    return this.text.startsWith(sign, this.at);
  }

  protected take(sign: string): boolean {
    if (!this.has(sign)) return false;
    this.at += sign.length;
    return true;
  }

  /** The unquoted word at this position; consumes nothing. */
  protected peekWord(): string {
    this.peek();
    // A line continuation inside the word may split a keyword.
    const word = /^[^\s;&|()<>"'$`]*/.exec(this.text.slice(this.at, this.at + 64))?.[0] ?? '';
    if (word.includes('\\') && this.text.startsWith('\\\n', this.at + word.indexOf('\\')))
      throw new Unparsable('continued word');
    const next = this.text[this.at + word.length];
    return next === undefined || /[\s;&|()<>]/.test(next) ? word : '';
  }

  protected keyword(word: string): boolean {
    if (this.peekWord() !== word) return false;
    this.at += word.length;
    return true;
  }

  protected ends(): boolean {
    const char = this.peek();
    return char === '' || char === ')' || this.has(';;') || CLOSERS.has(this.peekWord());
  }
}
