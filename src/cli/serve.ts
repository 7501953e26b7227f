import { DuolaneError } from '../errors.ts';
import { untilAborted } from '../stream/abort.ts';
import { openStore, serve, type Auth } from '../serve/index.ts';
import { blobsOf, removerOf } from '../serve/modules.ts';
import type { AgentModule, ServeOptions } from '../serve/types.ts';
import { memoryLog } from '../task/memory.ts';
import type { LogOptions, TaskLog } from '../task/types.ts';
import { openBrowser } from './browser.ts';
import { EXIT, numberFlag, textFlag, type Command } from './command.ts';
import { channelLogger } from './logger.ts';
import { exampleNames, loadAgent, SAMPLES } from './modules.ts';
import { reloadable } from './reload.ts';

const DEFAULT_STORE = '.duolane/tasks.sqlite';
/** The same each time, so that a page which is open finds a server that was started again. */
const USUAL_PORT = 8003;

export const serveCommand: Command = {
  usage: '<module or sample> [more …] [options]',
  words: exampleNames,
  options: {
    host: { value: 'address', text: '127.0.0.1 by default; any other needs --auth' },
    port: { value: 'number', text: `${USUAL_PORT} by default, or a free one where that is taken` },
    grpc: { value: 'port', text: 'A2A over gRPC too, on this port; 0 is a free one' },
    store: {
      value: 'file',
      text: `where tasks are kept (${DEFAULT_STORE}); "memory" keeps none, postgres://… shares them with other replicas`,
    },
    'max-runs': { value: 'number', text: 'runs at once here, 100 by default; 0 only accepts' },
    queue: { text: 'tasks wait in the store for a replica with room, in fair order' },
    'public-url': {
      value: 'url',
      text: 'where callers reach this server, if a proxy or balancer stands before it',
    },
    auth: {
      value: 'scheme',
      text: 'bearer:<token>, or jwt:<audience>@<issuer> for tokens of an OpenID issuer',
    },
    open: { text: 'open the page in the browser, if there is one' },
    json: { text: 'print the addresses as one JSON object' },
  },
  details: [
    SAMPLES,
    'The default export of a module is the agent; its export `options` is handed to serve().',
    'A module given by its path is loaded again when its file changes, unless NODE_ENV is production:\n' +
      'new runs get the new agent, running ones end with the old one. What it imports stays as it was.',
    'Ctrl-C drains: runs that can sleep are kept in the store, the others get their final event.',
  ],
  examples: [
    'duolane serve ai-doctor --open',
    'duolane serve ./agent.js ./second.js --port 8003 --store tasks.sqlite',
    'duolane serve ./agent.js --store postgres://duolane@db.internal/duolane --queue',
  ],
  async run({ args, flags, terminal, signal }) {
    if (args.length === 0) {
      throw new DuolaneError(
        'invalid',
        'serve what? Give a module or a sample: duolane serve ai-doctor',
      );
    }
    const { out, err } = terminal;
    const loaded = await Promise.all(args.map((each) => loadAgent(each)));
    const store = textFlag(flags, 'store') ?? DEFAULT_STORE;
    const host = textFlag(flags, 'host');
    const publicUrl = textFlag(flags, 'public-url');
    const auth = readAuth(textFlag(flags, 'auth'));
    const port = numberFlag(flags, 'port', { min: 0, max: 65_535, otherwise: USUAL_PORT });
    const grpc =
      flags['grpc'] === undefined
        ? undefined
        : { port: numberFlag(flags, 'grpc', { min: 0, max: 65_535, otherwise: 0 }) };
    const maxRuns = numberFlag(flags, 'max-runs', { min: 0, max: 100_000, otherwise: 100 });
    const says = (option: keyof ServeOptions): boolean =>
      loaded.some(({ module }) => module.options?.[option] !== undefined);
    const agents = nameAll(loaded).map(([name, found]): [string, AgentModule] => {
      if (found.sample || process.env['NODE_ENV'] === 'production') return [name, found.module];
      const agent = reloadable(found, signal, {
        onReload: () => err.line(`${found.file} has changed: new runs get the new agent`),
        onError: (error) => err.line(`${error.message}; the agent before the change goes on`),
      });
      return [name, { ...found.module, default: agent }];
    });
    const blobs = removerOf(blobsOf(Object.fromEntries(agents)));
    const ownLog = flags['store'] === undefined && says('log');
    await using log = ownLog ? undefined : await openLog(store, blobs);
    const options: ServeOptions = {
      ...(log && { log }),
      ...((flags['port'] !== undefined || !says('port')) && { port }),
      ...(flags['max-runs'] !== undefined && { maxRuns }),
      ...(flags['queue'] === true && { queue: true }),
      ...(!says('logger') && { logger: channelLogger(err) }),
      ...(host !== undefined && { host }),
      ...(publicUrl !== undefined && { publicUrl: publicUrl.replace(/\/$/, '') }),
      ...(auth && { auth }),
      ...(grpc && { grpc }),
    };
    const modules = Object.fromEntries(agents);
    await using served = await serve(modules, options).catch((error: Error) => {
      if (options.port !== USUAL_PORT || flags['port'] !== undefined || !isTaken(error))
        throw error;
      return serve(modules, { ...options, port: 0 });
    });
    const names = agents.map(([name]) => name);
    const { url, grpcUrl } = served;
    if (flags['json'])
      out.line(JSON.stringify({ url, ...(grpcUrl && { grpcUrl }), agents: names }));
    else {
      out.line(`${out.style('bold', url)}  the page`);
      for (const name of names) out.line(`${url}/a2a/${name}  A2A`);
      if (grpcUrl !== undefined) out.line(`${grpcUrl}  A2A over gRPC`);
      out.line(
        'Try there: Run, and in mid-run Cut connection, then Reconnect: nothing is lost. Cancel another.',
      );
      if (log) out.line(`Tasks are kept in ${withoutPassword(store)}.`);
      out.line('Ctrl-C drains and stops.');
    }
    if (flags['open'] && !openBrowser(url)) err.line('There is no browser here to open.');
    await untilAborted(signal);
    return EXIT.ok;
  },
};

const isTaken = ({ cause }: Error): boolean =>
  (cause as NodeJS.ErrnoException | undefined)?.code === 'EADDRINUSE';

async function openLog(store: string, blobs: LogOptions['blobs'] & object): Promise<TaskLog> {
  if (store === 'memory') return memoryLog({ blobs });
  try {
    return await openStore(store, { blobs });
  } catch (cause) {
    const { code, message } = DuolaneError.from(cause, 'server');
    if (code !== 'conflict') {
      throw new DuolaneError(
        code,
        `the store ${withoutPassword(store)} cannot be opened: ${message}`,
        { cause },
      );
    }
    throw new DuolaneError(code, `${message} (--store)`, { cause });
  }
}

const withoutPassword = (store: string): string => store.replace(/(:\/\/[^:@/]*):[^@/]*@/, '$1:…@');

/** Two modules of one name cannot share an address. */
function nameAll<T extends { readonly name: string }>(found: readonly T[]): [string, T][] {
  const names = found.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice === undefined) return found.map((each) => [each.name, each]);
  throw new DuolaneError('invalid', `two of these agents are called ${twice}; rename one file`);
}

function readAuth(value: string | undefined): Auth | undefined {
  if (value === undefined) return undefined;
  const bearer = /^bearer:(.+)$/.exec(value)?.[1];
  if (bearer) return { bearer };
  const [, audience, issuer] = /^jwt:(.+)@(.+)$/.exec(value) ?? [];
  if (audience && issuer) return { jwt: { audience, issuer } };
  throw new DuolaneError('invalid', '--auth must be bearer:<token> or jwt:<audience>@<issuer>');
}
