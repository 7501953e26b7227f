/** Stands for any text, in a word whose value only the shell knows: `$x`, `$(…)`, `*.ts`. */
export const ANY = '\uFFFF';

/** One word of a command, without its quotes. */
export interface ShellWord {
  /** Its value; {@link ANY} stands where an expansion decides. */
  readonly text: string;
  /** The shell does not change it: no expansion, no pattern of file names. */
  readonly literal: boolean;
  /** Some of it is in quotes or escaped: then it is neither a keyword nor an assignment. */
  readonly quoted: boolean;
}

const MAX_DEPTH = 50;
/** Words that end a list of commands. */
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

/** Thrown inside the parser only: the text is not, or may not be, what we take it for. */
export class Unparsable extends Error {}

/**
 * Reads the words of `sh`: quotes, expansions, redirections, here-documents, comments. The grammar
 * above it (`shell-command.ts`) reads the lists of commands, also those inside of a word.
 */
export abstract class ShellReader {
  /** See `ShellScript`. */
  plain = true;
  protected readonly text: string;
  protected depth: number;
  protected at = 0;
  /** Here-documents whose body starts at the next line. */
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

  /** The whole text as commands. */
  abstract script(): void;
  /** Commands up to a closing word or sign, which is left where it is; false: there are none. */
  protected abstract list(): boolean;
  /** A reader of a text inside of this one: its commands count here. */
  protected abstract nested(text: string): ShellReader;

  /** Counts what is nested: a text of nothing but `(` must not use up our own stack. */
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
    this.plain = false;
    this.at += match[0].length;
    this.space(false);
    const start = this.at;
    const word = this.word();
    if (!word) throw new Unparsable('redirection');
    if (/<<-?$/.test(match[0])) {
      const written = this.text.slice(start, this.at);
      // Shells differ in what an expansion means here.
      if (!word.literal || /[$`\n]/.test(written)) throw new Unparsable('here-document');
      this.heredocs.push({
        end: word.text,
        quoted: word.quoted,
        tabs: match[0].endsWith('-'),
      });
    }
    return true;
  }

  /** The bodies of here-documents, after the end of their line. */
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
        // A joined line may, or may not, be the end: shells differ.
        if (!quoted && raw.endsWith('\\')) throw new Unparsable('continued here-document');
        body += `${line}\n`;
      }
      if (!quoted) this.nested(body).#quotedText('');
    }
  }

  /** A word, or undefined where none starts. */
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
    // `{fd}>file` is a redirection for bash, and the word behind it the command.
    if (/[<>]/.test(this.peek()) && /^\{.*\}$/s.test(text)) throw new Unparsable('{fd}>');
    return started ? { text, literal, quoted } : undefined;
  }

  /** `[a-z]` is a pattern, `[` alone a command. */
  #isBracket(char: string): boolean {
    return char === '[' && this.#restOfWord(']');
  }

  /** `{a,b}` and `{1..3}` become words in bash, and stay as they are in dash. */
  #isBraceExpansion(): boolean {
    return this.#restOfWord(',', '..');
  }

  /** Whether one of the signs follows before the word can end; a long word may hold it. */
  #restOfWord(...signs: readonly string[]): boolean {
    const near = this.text.slice(this.at + 1, this.at + 257);
    const rest = /^[^\s;&|()<>]*/.exec(near)?.[0] ?? '';
    return rest.length === 256 || signs.some((sign) => rest.includes(sign));
  }

  /** What stands between double quotes, or in a here-document; `end` is taken. */
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

  /** Everything that starts with `$`; false: it is a plain dollar sign. */
  #dollar(inQuotes: boolean): boolean {
    this.skip();
    const char = this.peek();
    if (char === '(') {
      this.plain = false;
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
      // Escapes of bash; dash reads a dollar sign and a quoted text.
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

  /** A list of commands inside a word, up to its parenthesis. */
  #substitution(): void {
    // Shells differ in where the body of an open here-document starts then.
    if (this.heredocs.length > 0) throw new Unparsable('substitution behind <<');
    this.plain = false;
    this.list();
    this.space(true);
    if (!this.take(')') || this.heredocs.length > 0) throw new Unparsable('no )');
  }

  /** `$((…))`: false where it is not, and nothing was taken. */
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

  /** `${…}`, up to its brace. */
  #parameter(inQuotes: boolean): void {
    this.enter();
    this.skip();
    const start = this.at;
    // `${ command; }` and `${| command; }` of bash run a command.
    if (/[\s|]/.test(this.peek())) throw new Unparsable('${ ');
    for (;;) {
      const char = this.peek();
      if (char === '') throw new Unparsable('no }');
      if (char === '}') break;
      if (char === "'") {
        // Shells differ in whether it quotes here.
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
    // `${x@P}` runs what is in the variable.
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

  /** The next character; a backslash and a line end are not there. */
  protected peek(): string {
    while (this.text.startsWith('\\\n', this.at)) this.at += 2;
    return this.text[this.at] ?? '';
  }

  protected skip(): void {
    this.peek();
    this.at++;
  }

  /** Blanks and comments, and with `lines` line ends too. */
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

  /** The unquoted word that stands here, as it is written; nothing is taken. */
  protected peekWord(): string {
    this.peek();
    // With a line continuation in it, it may be a keyword in pieces.
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
