import { createInterface } from 'node:readline';
import { DuolaneError } from '../../errors.ts';
import { onAbort } from '../../stream/abort.ts';
import { EXIT, textFlag, type Command, type CommandCall } from '../command.ts';
import { openLocalChat, type AgentChat } from '../agents/local-chat.ts';
import { channelLogger } from '../terminal/terminal-logger.ts';
import { exampleNames, loadAgent, SAMPLES } from '../agents/load-agent.ts';
import { askUser, readLine } from '../terminal/prompt-user.ts';
import { stripControlCharacters } from '../../event/text/control-characters.ts';
import { Printer, printForeign } from '../terminal/entry-printer.ts';
import { openRemoteChat } from '../agents/remote-chat.ts';

export const chat: Command = {
  usage: '<address, module or sample> [message …] [options]',
  required: ['<agent>'],
  expected: 'an address, a module or a sample',
  words: exampleNames,
  options: {
    token: { value: 'bearer', text: 'sent to the server as its bearer token' },
    json: { text: 'print events as JSON, one per line' },
  },
  details: [
    SAMPLES,
    'With an address, it chats with the agent of any A2A server, 0.3 or 1.0, and reconnects after a\n' +
      'broken connection. With a module or a sample, the agent runs in this process.',
    'A message runs one turn. Without a terminal, every line of stdin is a turn, and questions of the\n' +
      'agent are declined.',
    'Ctrl-C cancels the turn; a second Ctrl-C, or Ctrl-D, exits.',
  ],
  examples: ['duolane chat http://127.0.0.1:8003', 'duolane chat ai-doctor'],
  async run(call) {
    const { args, flags, terminal } = call;
    const [where = '', ...message] = args;
    await using talk = await connect(where, call);
    if (!flags['json'] && terminal.interactive) {
      terminal.out.line(
        `${terminal.out.style('bold', stripControlCharacters(talk.name))}  Ctrl-C cancels a turn, twice exits`,
      );
    }
    const prompts = new Prompts(call, message);
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
    if (!URL.canParse(where))
      throw new DuolaneError('invalid', `invalid address "${where}": expected http(s)://host:port`);
    const token = textFlag(flags, 'token');
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const onDisconnect = (): void =>
      err.line(err.style('yellow', '\nConnection lost, reconnecting …'));
    return openRemoteChat(where, { headers, signal, onDisconnect });
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
    const ask = askUser(terminal, options);
    for await (const event of talk.say([{ text }], { ask, signal: turn.signal })) {
      if (printer) printer.event(event);
      else out.line(JSON.stringify(event));
      if (event.type === 'run.finished') ({ outcome } = event);
    }
    return outcome;
  } catch (error) {
    if (signal.aborted || !terminal.interactive) throw error;
    // The chat continues after a failed turn.
    printForeign(terminal.err, DuolaneError.from(error).message, 'red');
    return 'failed';
  } finally {
    unlisten();
    prompts.turn = undefined;
  }
}

/** Reads the messages of the user, and handles Ctrl-C between and within turns. */
class Prompts {
  /** Aborts the turn that runs. */
  turn: AbortController | undefined;
  readonly #call: CommandCall;
  readonly #message: readonly string[];
  #warned = false;

  constructor(call: CommandCall, message: readonly string[]) {
    this.#call = call;
    this.#message = message;
    call.onInterrupt(() => this.#interrupt());
  }

  async *read(): AsyncGenerator<string, void, undefined> {
    const { terminal, signal } = this.#call;
    if (this.#message.length > 0) yield this.#message.join(' ');
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
      this.turn.abort(new DuolaneError('canceled', 'canceled by Ctrl-C'));
      return true;
    }
    if (this.#warned || !terminal.interactive) return false;
    this.#warned = true;
    terminal.err.line('\n(Ctrl-C again to exit)');
    return true;
  }
}
