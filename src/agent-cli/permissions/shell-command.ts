import { ANY, CLOSERS, ShellReader, type ShellWord, Unparsable } from './shell-reader.ts';

/** One command with its arguments, which starts a program, a function or a builtin. */
export interface SimpleCommand {
  readonly words: readonly ShellWord[];
  /** An assignment such as `A=1` precedes it. */
  readonly assigns: boolean;
  /** Its text in the script. */
  readonly source: string;
}

export interface ShellScript {
  /** Every command of the script at any depth: in groups, loops, functions and substitutions. */
  readonly commands: readonly SimpleCommand[];
  /**
   * The script consists of commands joined by `;`, `&`, `|`, `&&`, `||` or a new line, without any
   * group, keyword, function, substitution or redirection.
   */
  readonly isSimple: boolean;
}

/** The longest argument in Linux, and so the longest command that can run. */
const MAX_CHARS = 128 * 1024;

/**
 * Parses a script of `sh` and finds every command in it. Returns undefined for a text that it does
 * not understand completely. It is strict because deny rules rely on it: the shells (dash, bash,
 * busybox) differ, so a text that they read differently is refused instead of guessed.
 */
export function parseShell(text: string): ShellScript | undefined {
  if (text.length > MAX_CHARS || text.includes(ANY) || text.includes('\0')) return undefined;
  const parser = new Parser(text, 0);
  try {
    parser.script();
    return { commands: parser.commands, isSimple: parser.isSimple };
  } catch (reason) {
    if (reason instanceof Unparsable) return undefined;
    throw reason;
  }
}

/** Words that are keywords in bash and names of ordinary commands in other shells. */
const AMBIGUOUS = new Set(['function', 'select', 'coproc']);

class Parser extends ShellReader {
  readonly commands: SimpleCommand[];

  constructor(text: string, depth: number, commands: SimpleCommand[] = []) {
    super(text, depth);
    this.commands = commands;
  }

  protected override nested(text: string): Parser {
    this.isSimple = false;
    return new Parser(text, this.depth, this.commands);
  }

  override script(): void {
    this.list();
    this.space(true);
    if (this.at < this.text.length || this.heredocs.length > 0) throw new Unparsable('rest');
  }

  /** Reads commands up to a closing keyword or operator, which it does not consume. */
  protected override list(): boolean {
    this.enter();
    let any = false;
    for (;;) {
      this.space(true);
      if (this.ends()) break;
      this.#andOr();
      any = true;
      this.space(false);
      if (this.has(';;')) break;
      if (!this.take(';') && !this.take('&') && !this.newline()) break;
    }
    this.depth--;
    return any;
  }

  #andOr(): void {
    for (;;) {
      this.#pipeline();
      this.space(false);
      if (!this.take('&&') && !this.take('||')) return;
      this.space(true);
    }
  }

  #pipeline(): void {
    for (;;) {
      this.space(false);
      while (this.keyword('!')) this.space(false);
      this.#command();
      this.space(false);
      if (this.has('||') || !this.take('|')) return;
      this.take('&');
      this.space(true);
    }
  }

  #command(): void {
    this.enter();
    this.#anyCommand();
    this.depth--;
  }

  #anyCommand(): void {
    const word = this.peekWord();
    if (AMBIGUOUS.has(word)) throw new Unparsable(word);
    if (CLOSERS.has(word)) throw new Unparsable(`unexpected ${word}`);
    if (this.peek() === '(') {
      this.skip();
      this.#body();
      if (!this.take(')')) throw new Unparsable('no )');
      return this.redirects();
    }
    switch (word) {
      case '{':
        this.keyword('{');
        this.#body();
        this.#expect('}');
        return this.redirects();
      case 'if':
        return this.#if();
      case 'while':
      case 'until':
        this.keyword(word);
        this.#body();
        return this.#loop();
      case 'for':
        return this.#for();
      case 'case':
        return this.#case();
      default:
        return this.#simple();
    }
  }

  #body(): void {
    this.isSimple = false;
    if (!this.list()) throw new Unparsable('empty');
    this.space(true);
  }

  #expect(word: string): void {
    this.space(true);
    if (!this.keyword(word)) throw new Unparsable(`no ${word}`);
  }

  #loop(): void {
    this.#expect('do');
    this.#body();
    this.#expect('done');
    this.redirects();
  }

  #if(): void {
    this.keyword('if');
    do {
      this.#body();
      this.#expect('then');
      this.#body();
    } while (this.keyword('elif'));
    if (this.keyword('else')) this.#body();
    this.#expect('fi');
    this.redirects();
  }

  #for(): void {
    this.isSimple = false;
    this.keyword('for');
    this.space(false);
    if (!/^[A-Za-z_]\w*$/.test(this.word()?.text ?? '')) throw new Unparsable('for');
    this.space(true);
    if (this.keyword('in')) {
      this.space(false);
      while (this.word()) this.space(false);
      if (!this.take(';') && !this.newline()) throw new Unparsable('for');
    } else this.take(';');
    this.#loop();
  }

  #case(): void {
    this.isSimple = false;
    this.keyword('case');
    this.space(false);
    if (!this.word()) throw new Unparsable('case');
    this.#expect('in');
    for (;;) {
      this.space(true);
      if (this.keyword('esac')) break;
      this.take('(');
      do {
        this.space(false);
        if (!this.word()) throw new Unparsable('case');
        this.space(false);
      } while (this.take('|'));
      if (!this.take(')')) throw new Unparsable('case');
      this.list();
      this.space(true);
      if (this.take(';;')) continue;
      this.#expect('esac');
      break;
    }
    this.redirects();
  }

  #simple(): void {
    const from = this.at;
    let to = from;
    const words: ShellWord[] = [];
    let assigns = false;
    let redirects = false;
    for (;;) {
      this.space(false);
      if (this.redirect()) {
        redirects = true;
        to = this.at;
        continue;
      }
      const start = this.at;
      const word = this.word();
      if (!word) break;
      to = this.at;
      // A word is an assignment if an unquoted name precedes its first `=`.
      const assignment = /^[A-Za-z_]\w*\+?=/.test(this.text.slice(start, to));
      if (words.length === 0 && assignment) assigns = true;
      else words.push(word);
      this.space(false);
      if (this.peek() === '(') {
        if (words.length !== 1 || assigns || redirects) throw new Unparsable('(');
        return this.#function();
      }
    }
    if (words.length === 0 && !assigns && !redirects) throw new Unparsable('no command');
    this.commands.push({ words, assigns, source: this.text.slice(from, to) });
  }

  /** A function may be called by any later word, so the commands of its body count as run. */
  #function(): void {
    this.take('(');
    this.space(false);
    if (!this.take(')')) throw new Unparsable('function');
    this.isSimple = false;
    this.space(true);
    if (!'({'.includes(this.peek()) || this.peek() === '') throw new Unparsable('function');
    this.#command();
  }
}
