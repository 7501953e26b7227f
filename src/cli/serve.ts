import { once } from 'node:events';
import { DuolaneError } from '../errors.ts';
import { openStore, serve } from '../serve/index.ts';
import type { Command } from './command.ts';
import { loadAgent } from './modules.ts';

const DEFAULT_STORE = '.duolane/tasks.sqlite';

export const serveCommand: Command = {
  summary: 'Serve agents over A2A 0.3 and 1.0, with the page that shows both lanes.',
  usage: '<module or sample> [more …] [options]',
  options: {
    host: { type: 'string' },
    port: { type: 'string' },
    store: { type: 'string' },
    auth: { type: 'string' },
    json: { type: 'boolean' },
  },
  help: {
    '--host <address>': '127.0.0.1 by default; any other needs --auth',
    '--port <number>': 'a free one by default',
    '--store <file>': `where tasks are kept (${DEFAULT_STORE}); "memory" keeps none`,
    '--auth bearer:<token>': 'callers must send this token',
    '--json': 'print the address as JSON',
  },
  async run({ args, flags, terminal, signal }) {
    if (args.length === 0)
      throw new DuolaneError(
        'invalid',
        'serve what? Give a module or a sample: duolane serve ai-doctor',
      );
    const loaded = await Promise.all(args.map(loadAgent));
    const store = typeof flags['store'] === 'string' ? flags['store'] : DEFAULT_STORE;
    await using log =
      store === 'memory' ? (await import('../task/memory.ts')).memoryLog() : await openStore(store);
    const auth = readAuth(flags['auth']);
    await using served = await serve(
      Object.fromEntries(loaded.map(({ name, module }) => [name, module])),
      {
        log,
        port: readPort(flags['port']),
        ...(typeof flags['host'] === 'string' && { host: flags['host'] }),
        ...(auth && { auth }),
      },
    );
    if (flags['json'])
      terminal.line(JSON.stringify({ url: served.url, agents: loaded.map(({ name }) => name) }));
    else {
      terminal.line(`${terminal.style('bold', served.url)}  the page`);
      for (const { name } of loaded) terminal.line(`${served.url}/a2a/${name}  A2A`);
      terminal.line(`Tasks are kept in ${store}. Ctrl-C drains and stops.`);
    }
    if (!signal.aborted) await once(signal, 'abort');
    return 0;
  },
};

function readPort(value: string | boolean | undefined): number {
  const port = Number(value ?? 0);
  if (Number.isInteger(port) && port >= 0 && port < 65536) return port;
  throw new DuolaneError(
    'invalid',
    `--port must be a number from 0 to 65535, got ${String(value)}`,
  );
}

function readAuth(value: string | boolean | undefined): { readonly bearer: string } | undefined {
  if (value === undefined) return undefined;
  const bearer = /^bearer:(.+)$/.exec(String(value))?.[1];
  if (bearer) return { bearer };
  throw new DuolaneError('invalid', '--auth must be bearer:<token>');
}
