import { createInterface } from 'node:readline';
import { DuolaneError } from '../../errors.ts';
import { onAbort } from '../../stream/abort.ts';
import { EXIT, textFlag, type Command, type CommandCall } from '../command.ts';
import { openLocalChat, type AgentChat } from '../agents/local-chat.ts';
import { channelLogger } from '../terminal/terminal-logger.ts';
import { exampleNames, loadAgent, SAMPLES } from '../agents/load-agent.ts';
import { askUser, readLine } from '../terminal/prompt-user.ts';
import { stripControlCharacters, Printer } from '../terminal/entry-printer.ts';
import { openRemoteChat } from '../agents/remote-chat.ts';

export const chat: Command = {
  usage: '<address, module or sample> [message …] [options]',
  words: exampleNames,
  options: {
    token: { value: 'bearer', text: 'sent to the server as its bearer token' },
    json: { text: 'print events as JSON, one per line' },
  },
  details: [
    SAMPLES,
    'With an address, the agent of any A2A server, 0.3 or 1.0; a connection that breaks is made again\n' +
      'by itself. With a module or a sample, the agent runs here.',
    'With a message it is one turn. Without a terminal, every line of stdin is one, and what the\n' +
      'agent asks a person is declined.',
    'Ctrl-C cancels the turn; again, or at the prompt twice, it leaves. So does Ctrl-D.',
  ],
  examples: ['duolane chat http://127.0.0.1:8003', 'duolane chat ai-doctor'],
  async run(call) {
    const { args, flags, terminal } = call;
    const [where, ...words] = args;
    if (where === undefined) {
      throw new DuolaneError('invalid', 'chat with whom? Give an address, a module or a sample');
    }
    await using talk = await connect(where, call);
    if (!flags['json'] && terminal.interactive) {
      terminal.out.line(
        `${terminal.out.style('bold', stripControlCharacters(talk.name))}  Ctrl-C cancels a turn, twice leaves`,
      );
    }
    const prompts = new Prompts(call, words);
    let outcome: string | undefined;
    for await (const text of prompts.read()) outcome = await oneTurn(talk, text, prompts, call);
    if (terminal.interactive) return EXIT.ok;
    call.signal.throwIfAborted();
    return outcome === 'completed' || outcome === undefined ? EXIT.ok : EXIT.failed;
  },
};

async function connect(
  where: string,
  { flags, signal, terminal: { err } }: CommandCall,
): Promise<AgentChat> {
  if (/^https?:\/\//.test(where)) {
    if (!URL.canParse(where)) throw new DuolaneError('invalid', `${where} is no address`);
    const token = textFlag(flags, 'token');
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const onLost = (): void => err.line(err.style('yellow', '\nThe line is lost. Trying again …'));
    return openRemoteChat(where, { headers, signal, onLost });
  }
  const { name, module } = await loadAgent(where);
  return openLocalChat(name, module, channelLogger(err));
}

async function oneTurn(
  talk: AgentChat,
  text: string,
  prompts: Prompts,
  { flags, terminal, signal }: CommandCall,
): Promise<string | undefined> {
  const { out } = terminal;
  const printer = flags['json'] ? undefined : new Printer(out);
  const turn = new AbortController();
  prompts.turn = turn;
  const unlisten = onAbort(signal, (reason) => turn.abort(reason));
  let outcome: string | undefined;
  try {
    const options = { signal: turn.signal, otherwise: 'decline' } as const;
    const ask: Parameters<AgentChat['say']>[1]['ask'] = (request) =>
      askUser(request, terminal, options);
    for await (const event of talk.say([{ text }], { ask, signal: turn.signal })) {
      if (printer) printer.event(event);
      else out.line(JSON.stringify(event));
      if (event.type === 'run.finished') ({ outcome } = event);
    }
    return outcome;
  } catch (error) {
    if (signal.aborted || !terminal.interactive) throw error;
    // A talk goes on after a turn that went wrong.
    terminal.err.line(
      terminal.err.style('red', stripControlCharacters(DuolaneError.from(error).message)),
    );
    return 'failed';
  } finally {
    unlisten();
    prompts.turn = undefined;
  }
}

/** Where turns come from, and what Ctrl-C means between and within them. */
class Prompts {
  /** The one that runs. */
  turn: AbortController | undefined;
  readonly #call: CommandCall;
  readonly #words: readonly string[];
  #warned = false;

  constructor(call: CommandCall, words: readonly string[]) {
    this.#call = call;
    this.#words = words;
    call.onInterrupt(() => this.#interrupt());
  }

  async *read(): AsyncGenerator<string, void, undefined> {
    const { terminal, signal } = this.#call;
    if (this.#words.length > 0) yield this.#words.join(' ');
    else if (terminal.interactive) yield* this.#ask();
    else {
      for await (const line of createInterface({ input: process.stdin, signal })) {
        if (line.trim() !== '') yield line;
      }
      signal.throwIfAborted();
    }
  }

  async *#ask(): AsyncGenerator<string, void, undefined> {
    const { terminal, signal } = this.#call;
    const history: string[] = [];
    for (;;) {
      let text: string | undefined;
      try {
        text = await readLine(terminal.out.style('bold', '> '), signal, history);
      } catch (error) {
        if (signal.aborted) return; // Ctrl-C twice
        throw error;
      }
      if (text === undefined) return terminal.out.line();
      this.#warned = false;
      if (text.trim() === '') continue;
      history.unshift(text);
      yield text;
      if (signal.aborted) return;
    }
  }

  #interrupt(): boolean {
    const { terminal } = this.#call;
    if (this.turn) {
      if (this.turn.signal.aborted || !terminal.interactive) return false;
      this.turn.abort(new DuolaneError('canceled', 'canceled at the keyboard'));
      return true;
    }
    if (this.#warned || !terminal.interactive) return false;
    this.#warned = true;
    terminal.err.line('\n(Ctrl-C again to leave)');
    return true;
  }
}
