import { DuolaneError } from '../../errors.ts';
import { untilAborted } from '../../stream/abort.ts';
import { offerGrpc } from '../../mcp/grpc/index.ts';
import {
  offerHttp,
  type OfferHttpOptions,
  offerStdio,
  serveMessages,
  type ToolSource,
} from '../../mcp/index.ts';
import { omitUndefined } from '../../json.ts';
import { type Command, EXIT, textFlag } from '../command.ts';
import { dialSource, readProtocol, SOURCES } from './dial-source.ts';
import { stripControlCharacters } from '../../event/text/control-characters.ts';
import { type Counts, CountingSource } from './counting-source.ts';
import type { TextOutput } from '../terminal/terminal.ts';

export const bridge: Command = {
  usage: '<from> <to> [options]',
  required: ['<from>', '<to>'],
  expected: "e.g. duolane bridge 'stdio:node server.js' grpc://127.0.0.1:50051",
  most: 2,
  options: {
    token: { value: 'bearer', text: 'sent to <from> as its bearer token' },
    'require-token': { value: 'bearer', text: 'bearer token that clients of <to> must send' },
    anonymous: { text: 'clients on other machines need no token' },
    protocol: {
      value: 'kind',
      text: 'protocol to <from>: auto (default), session (up to 2025-11-25) or stateless (2026-07-28)',
    },
    'max-bytes': { value: 'n', text: 'longest message of a stdio <from>; 67108864 by default' },
    'single-user': {
      text: 'all clients are one person: messages of the server without a call go to the only open one',
    },
    json: { text: 'print the address and then the counters as JSON, one per line' },
  },
  details: [
    `<from> is ${SOURCES}.`,
    '<to> is the address of the bridge: grpc://host:port, http://host:port for Streamable HTTP,\n' +
      'sse://host:port for the older SSE transport as well, or stdio: for this process itself, as a\n' +
      'server that a client starts. Port 0 chooses a free port.',
    'Each client gets a connection of its own to <from>, a process if <from> is stdio:, and messages\n' +
      'pass unchanged in both directions. Clients of the typed gRPC service, and of another kind of\n' +
      'protocol than <from>, share one connection and are translated. A process that exits is started\n' +
      'again. Tokens of clients are not passed on.\n' +
      'Counters are printed on stderr, live on a terminal. Ctrl-C stops.',
  ],
  examples: [
    "duolane bridge 'stdio:node server.js' grpc://127.0.0.1:50051",
    'duolane bridge grpc://127.0.0.1:50051 http://127.0.0.1:3000',
    'duolane bridge http://127.0.0.1:3000/mcp stdio:',
  ],
  async run({ args, flags, terminal, signal }) {
    const [from = '', to = ''] = args;
    const requireToken = textFlag(flags, 'require-token');
    const offer = readTarget(to, requireToken, Boolean(flags['anonymous']));
    const { out, err } = terminal;
    const token = textFlag(flags, 'token');
    await using source = await dialSource(from, {
      token,
      signal,
      capabilities: PASSED_ON,
      // The clients of a bridge have limits of their own, and their cancellations are passed on.
      timeoutMs: Infinity,
      protocol: readProtocol(textFlag(flags, 'protocol')) ?? defaultProtocol(from),
      maxBytes: readBytes(textFlag(flags, 'max-bytes')),
      singleUser: Boolean(flags['single-user']),
    });
    const tally = new CountingSource(source, () => shown.changed());
    const report = flags['json']
      ? (counts: Counts) => out.line(JSON.stringify(counts))
      : (counts: Counts) => err.line(err.style('dim', describe(counts)));
    using shown = new Shown(err, () => tally.counts, Boolean(flags['json']), report);
    await using offered = await offer(tally.source);
    const { url = 'stdio:', done } = offered;
    if (flags['json'] && url !== 'stdio:')
      out.line(JSON.stringify({ url, from, name: source.info.name }));
    else
      err.line(
        `${err.style('bold', url)}  ${stripControlCharacters(source.info.name)}, from ${from}`,
      );
    await Promise.race([untilAborted(signal), done ?? new Promise(() => {})]);
    return EXIT.ok;
  },
};

/** What a server may ask, since the bridge passes its questions on to the client. */
const PASSED_ON = { elicitation: {}, sampling: {}, roots: {} };

/** Whether other machines can reach an address. */
function isOpenToOthers(to: string): boolean {
  if (to === 'stdio:' || !URL.canParse(to)) return false;
  return !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(to).hostname);
}

type Offered = AsyncDisposable & { readonly url?: string; readonly done?: Promise<void> };

/** A server of the older SSE transport has only one protocol. */
const defaultProtocol = (from: string): 'auto' | undefined =>
  /^sses?:/.test(from) ? undefined : 'auto';

function readBytes(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  if (/^[1-9]\d{0,9}$/.test(given)) return Number(given);
  throw new DuolaneError('invalid', `invalid --max-bytes "${given}": expected a number of bytes`);
}

/** Parses <to>. Throws `invalid` before anything is started. */
function readTarget(
  to: string,
  requireToken: string | undefined,
  anonymous: boolean,
): (source: ToolSource) => Promise<Offered> {
  if (to === 'stdio:') return async (source) => offerStdio(source);
  const url = URL.canParse(to) ? new URL(to) : undefined;
  const { hostname: host = '', port = '' } = url ?? {};
  const address = { host: host.replace(/^\[|\]$/g, ''), port: Number(port) };
  if (!url || port === '' || !['grpc:', 'http:', 'sse:'].includes(url.protocol))
    // A URL omits the default port of its scheme, so `http://host:80` has none.
    throw new DuolaneError(
      'invalid',
      `invalid <to> "${to}": expected grpc://host:port, http://host:port, sse://host:port or stdio:`,
    );
  if (isOpenToOthers(to) && requireToken === undefined && !anonymous)
    throw new DuolaneError(
      'invalid',
      `every machine that reaches ${to} could call the tools of <from>, with its --token; use 127.0.0.1, --require-token, or --anonymous behind a proxy that authenticates`,
    );
  if (url.protocol === 'grpc:')
    return (source) =>
      offerGrpc(source, {
        ...address,
        ...(requireToken !== undefined && { token: requireToken }),
        tunnel: (transport) => serveMessages(source, transport),
      });
  // Clients on other machines use any name of this one; a page cannot know the token.
  const options = omitUndefined<OfferHttpOptions>({
    ...address,
    token: requireToken,
    hosts: isOpenToOthers(to) ? ['*'] : undefined,
  });
  if (url.protocol === 'http:') return (source) => offerHttp(source, options);
  return async (source) => {
    const offered = await offerHttp(source, { ...options, sse: '/sse' });
    const { host: bound } = new URL(offered.url);
    const url = `sse://${bound}/sse`;
    return { url, [Symbol.asyncDispose]: () => offered[Symbol.asyncDispose]() };
  };
}

const EVERY_MS = 1_000;
const LIVE_MS = 100;

/** Prints the counters: drawn over themselves on a terminal, else as a line after a change. */
class Shown implements Disposable {
  readonly #err: TextOutput;
  readonly #counts: () => Counts;
  readonly #live: boolean;
  readonly #report: (counts: Counts) => void;
  readonly #timer: NodeJS.Timeout;
  #fresh = false;

  constructor(
    err: TextOutput,
    counts: () => Counts,
    json: boolean,
    report: (counts: Counts) => void,
  ) {
    this.#err = err;
    this.#counts = counts;
    this.#live = err.live && !json;
    this.#report = report;
    this.#timer = setInterval(() => this.#show(), this.#live ? LIVE_MS : EVERY_MS);
  }

  changed(): void {
    this.#fresh = true;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#show();
    if (this.#live) this.#err.line();
  }

  #show(): void {
    if (!this.#fresh) return;
    this.#fresh = false;
    if (this.#live)
      this.#err.write(`\r\x1b[2K${describe(this.#counts()).slice(0, this.#err.width - 1)}`);
    else this.#report(this.#counts());
  }
}

const describe = ({ lists, items, calls, events, open, canceled, failed }: Counts): string =>
  `lists ${lists} (${items} items)  calls ${calls} (${events} events)  ` +
  `running ${open}  cancelled ${canceled}  failed ${failed}`;
