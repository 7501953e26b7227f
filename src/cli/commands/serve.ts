import { dirname, join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { untilAborted } from '../../stream/abort.ts';
import { openTaskLog, serve, type Auth } from '../../serve/index.ts';
import { queueLimit, type StoreOptions } from '../../serve/serve.ts';
import { awsCredentials, openBlobs } from '../../serve/open-blobs.ts';
import { blobsOf, removerOf } from '../../serve/server-options.ts';
import type { AgentModule, ServeOptions } from '../../serve/types.ts';
import type { BlobStore } from '../../task/blob-store.ts';
import { memoryLog } from '../../task/memory/memory-log.ts';
import type { S3Credentials } from '../../task/s3/index.ts';
import type { TaskLog } from '../../task/types.ts';
import { openBrowser } from '../terminal/open-browser.ts';
import { EXIT, numberFlag, textFlag, type Command, type CommandFlags } from '../command.ts';
import { channelLogger } from '../terminal/terminal-logger.ts';
import { exampleNames, loadAgent, SAMPLES } from '../agents/load-agent.ts';
import { reloadable } from '../agents/reloadable-agent.ts';
import { readSecret, secretSetting } from './read-secret.ts';

const DEFAULT_STORE = '.duolane/tasks.sqlite';
/** Fixed, so that an open page finds a server that was restarted. */
const DEFAULT_PORT = 8003;
const S3_PREFIX = 'DUOLANE_S3_';

export const serveCommand: Command = {
  usage: '<module or sample> [more …] [options]',
  required: ['<agent>'],
  expected: 'a module or a sample, e.g. duolane serve ai-doctor',
  words: exampleNames,
  options: {
    host: { value: 'address', text: '127.0.0.1 by default; any other needs --auth' },
    port: { value: 'number', text: `${DEFAULT_PORT} by default, or a free one if that is in use` },
    grpc: { value: 'port', text: 'serve A2A over gRPC too, on this port; 0 chooses a free one' },
    store: {
      value: 'file',
      text: `file that stores tasks (${DEFAULT_STORE}); "memory" stores none, postgres://… shares them with other replicas; @<file> reads this value from a file; also from DUOLANE_STORE`,
    },
    blobs: {
      value: 'folder',
      text: 'where agents store large artifacts (ctx.blobs): a folder, or for replicas postgres://… or s3://<bucket>/<prefix>; @<file> reads this value from a file; also from DUOLANE_BLOBS',
    },
    'max-runs': {
      value: 'number',
      text: 'concurrent runs in this process, 100 by default; 0 only accepts tasks',
    },
    queue: { text: 'tasks wait in the store for a replica with a free slot, in fair order' },
    'public-url': {
      value: 'url',
      text: 'address at which callers reach this server, if it is behind a proxy or load balancer',
    },
    auth: {
      value: 'scheme',
      text: 'bearer:@<file> with the token in a file, or jwt:<audience>@<issuer> for tokens of an OpenID issuer; also from DUOLANE_AUTH',
    },
    operators: {
      value: 'names',
      text: 'owners that may read /metrics, /api/replicas and /api/audit, separated by commas',
    },
    audit: {
      value: 'file',
      text: 'file that records sign-ins and answers; audit.jsonl beside the store by default',
    },
    keep: {
      value: 'days',
      text: 'how long ended tasks are kept, 30 by default; 0 keeps them forever',
    },
    open: { text: 'open the page in the browser, if there is one' },
    json: { text: 'print the addresses as one JSON object' },
  },
  details: [
    SAMPLES,
    'The default export of a module is the agent; its export `options` is passed to serve().',
    'A module given by its path is loaded again when its file changes, unless NODE_ENV is production:\n' +
      'new runs use the new agent, running ones keep the old one. Its imports are not loaded again.',
    'Every user of the machine can read a command line (ps). Put secrets into a file (@<file>) or into the\n' +
      'environment: DUOLANE_AUTH, DUOLANE_STORE and DUOLANE_BLOBS have the form of the options.',
    'The credentials of s3://… are DUOLANE_S3_ACCESS_KEY_ID and DUOLANE_S3_SECRET_ACCESS_KEY, or else\n' +
      'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which agents see too.',
    'Ctrl-C drains: runs that can be resumed are suspended in the store, others get their final event.',
  ],
  examples: [
    'duolane serve ai-doctor --open',
    'duolane serve ./agent.js ./second.js --port 8003 --store tasks.sqlite',
    'duolane serve ./agent.js --store @/run/secrets/database --auth bearer:@/run/secrets/token --queue',
  ],
  async run({ args, flags, terminal, signal }) {
    const { out, err } = terminal;
    // Secrets are read and removed from the environment before the code of any agent is loaded.
    const authSetting = secretSetting(flags, 'auth', 'DUOLANE_AUTH');
    const storeSetting = secretSetting(flags, 'store', 'DUOLANE_STORE');
    const store = await readSecret(storeSetting?.value ?? DEFAULT_STORE, storeSetting?.from ?? '');
    const blobsSetting = secretSetting(flags, 'blobs', 'DUOLANE_BLOBS');
    const credentials = takeS3Credentials();
    const auth = authSetting && (await readAuth(authSetting.value, authSetting.from));
    for (const flag of exposedFlags(flags))
      err.line(
        `--${flag} contains a secret that every user of this machine can read (ps); use a file (@<file>) or DUOLANE_${flag.toUpperCase()}`,
      );
    const loaded = await Promise.all(args.map((each) => loadAgent(each)));
    const host = textFlag(flags, 'host');
    const publicUrl = textFlag(flags, 'public-url');
    const operators = textFlag(flags, 'operators');
    const auditFlag = textFlag(flags, 'audit');
    const auditFile = auditFlag ?? besideStore(store);
    const audit = auditFile === undefined ? undefined : { file: auditFile };
    const port = numberFlag(flags, 'port', { min: 0, max: 65_535, otherwise: DEFAULT_PORT });
    const grpc =
      flags['grpc'] === undefined
        ? undefined
        : { port: numberFlag(flags, 'grpc', { min: 0, max: 65_535, otherwise: 0 }) };
    const maxRuns = numberFlag(flags, 'max-runs', { min: 0, max: 100_000, otherwise: 100 });
    const keepDays = numberFlag(flags, 'keep', { min: 0, max: 36_500, otherwise: 30 });
    const isSet = (option: keyof ServeOptions): boolean =>
      loaded.some(({ module }) => module.options?.[option] !== undefined);
    const agents = nameAll(loaded).map(([name, found]): [string, AgentModule] => {
      if (found.sample || process.env['NODE_ENV'] === 'production') return [name, found.module];
      const agent = reloadable(found, signal, {
        onReload: () => err.line(`${found.file} has changed: new runs use the new agent`),
        onError: (error) => err.line(`${error.message}; the previous agent stays in use`),
      });
      return [name, { ...found.module, default: agent }];
    });
    const limits =
      loaded.find(({ module }) => module.options?.limits)?.module.options?.limits ?? {};
    await using blobs = blobsSetting && (await openStore(blobsSetting, credentials));
    const remover = removerOf(blobsOf(Object.fromEntries(agents), blobs));
    const ownLog = storeSetting === undefined && isSet('log');
    await using log = ownLog
      ? undefined
      : await openLog(store, { blobs: remover, logger: channelLogger(err), ...queueLimit(limits) });
    const options: ServeOptions = {
      ...(log && { log }),
      ...(blobs && { blobs }),
      ...((flags['port'] !== undefined || !isSet('port')) && { port }),
      ...(flags['max-runs'] !== undefined && { maxRuns }),
      ...(flags['queue'] === true && { queue: true }),
      ...(!isSet('logger') && { logger: channelLogger(err) }),
      ...(host !== undefined && { host }),
      ...(publicUrl !== undefined && { publicUrl: publicUrl.replace(/\/$/, '') }),
      ...(auth && { auth }),
      ...((auditFlag !== undefined || !isSet('audit')) && audit !== undefined && { audit }),
      ...(operators !== undefined && { operators: operators.split(',') }),
      ...(flags['keep'] !== undefined && {
        retention: keepDays === 0 ? false : { tasksMs: keepDays * 24 * 60 * 60 * 1000 },
      }),
      ...(grpc && { grpc }),
    };
    const modules = Object.fromEntries(agents);
    await using served = await serve(modules, options).catch((error: Error) => {
      if (options.port !== DEFAULT_PORT || flags['port'] !== undefined || !isTaken(error))
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
        'Try on the page: Run; during the run Disconnect, then Reconnect: nothing is lost; Cancel another run.',
      );
      if (log) out.line(`Tasks are stored in ${withoutPassword(store)}.`);
      out.line('Ctrl-C drains and stops.');
    }
    if (flags['open'] && !openBrowser(url)) err.line('cannot open a browser: none was found');
    await untilAborted(signal);
    return EXIT.ok;
  },
};

/** The default audit file: beside the store. A store in memory has none. */
function besideStore(store: string): string | undefined {
  if (store === 'memory') return undefined;
  const folder = /^postgres(ql)?:\/\//.test(store) ? dirname(DEFAULT_STORE) : dirname(store);
  return join(folder, 'audit.jsonl');
}

const isTaken = ({ cause }: Error): boolean =>
  (cause as NodeJS.ErrnoException | undefined)?.code === 'EADDRINUSE';

/** The credentials for S3 that are for this process alone. Removes them from the environment. */
function takeS3Credentials(): S3Credentials | undefined {
  const names = ['ACCESS_KEY_ID', 'SECRET_ACCESS_KEY', 'SESSION_TOKEN'].map(
    (name) => `${S3_PREFIX}${name}`,
  );
  const given = Object.fromEntries(names.map((name) => [name, process.env[name]]));
  for (const name of names) delete process.env[name];
  return Object.values(given).some(Boolean) ? awsCredentials(given, S3_PREFIX) : undefined;
}

async function openStore(
  setting: { readonly value: string; readonly from: string },
  credentials: S3Credentials | undefined,
): Promise<BlobStore & AsyncDisposable> {
  const address = await readSecret(setting.value, setting.from);
  try {
    return await openBlobs(address, credentials ? { credentials } : {});
  } catch (cause) {
    const { code, message } = DuolaneError.from(cause, 'server');
    throw new DuolaneError(code, `cannot open the blob store of ${setting.from}: ${message}`, {
      cause,
    });
  }
}

async function openLog(store: string, options: StoreOptions): Promise<TaskLog> {
  if (store === 'memory') return memoryLog(options);
  try {
    return await openTaskLog(store, options);
  } catch (cause) {
    const { code, message } = DuolaneError.from(cause, 'server');
    if (code !== 'conflict') {
      throw new DuolaneError(
        code,
        `cannot open the store "${withoutPassword(store)}": ${message}`,
        { cause },
      );
    }
    throw new DuolaneError(code, `${message} (--store)`, { cause });
  }
}

const withoutPassword = (store: string): string => store.replace(/(:\/\/[^:@/]*):[^@/]*@/, '$1:…@');

/** Throws `invalid` for two modules of one name, since they would have the same address. */
function nameAll<T extends { readonly name: string }>(found: readonly T[]): [string, T][] {
  const names = found.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice === undefined) return found.map((each) => [each.name, each]);
  throw new DuolaneError('invalid', `two agents have the name "${twice}"; rename one file`);
}

async function readAuth(value: string, from: string): Promise<Auth> {
  const bearer = /^bearer:(.+)$/.exec(value)?.[1];
  if (bearer !== undefined) return { bearer: await readSecret(bearer, from) };
  const [, audience, issuer] = /^jwt:(.+)@([^@]+)$/.exec(value) ?? [];
  if (audience && issuer) return { jwt: { audience, issuer } };
  throw new DuolaneError(
    'invalid',
    `invalid ${from}: expected bearer:@<file>, bearer:<token> or jwt:<audience>@<issuer>`,
  );
}

/** The flags whose value contains a secret itself, not the name of a file. */
function exposedFlags(flags: CommandFlags): readonly string[] {
  const hasPassword = (name: string): boolean => {
    const value = textFlag(flags, name) ?? '';
    return withoutPassword(value) !== value;
  };
  return [
    ...(/^bearer:(?!@)/.test(textFlag(flags, 'auth') ?? '') ? ['auth'] : []),
    ...['store', 'blobs'].filter(hasPassword),
  ];
}
