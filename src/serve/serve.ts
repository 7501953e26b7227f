import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { a2aServer, type AgentDescription } from '../a2a/index.ts';
import { DuolaneError } from '../errors.ts';
import type { Agent } from '../event/types.ts';
import { listen } from '../http/node.ts';
import { createRunner } from '../task/runner.ts';
import type { TaskLog } from '../task/types.ts';
import { apiRoutes } from './api.ts';
import { createGuard, type Auth } from './guard.ts';
import { pageRoutes } from './page.ts';
import { createRouter, plain, type Route } from './router.ts';
import type { AgentModule, ServeOptions } from './types.ts';

export interface Served extends AsyncDisposable {
  readonly url: string;
  readonly log: TaskLog;
}

const HEARTBEAT_MS = 15_000;
const DEFAULT_STORE = '.duolane/tasks.sqlite';

/**
 * From an agent to a running server: A2A 0.3 and 1.0, the page, health. Several agents by name share
 * one log and one page; the first is the one whose card stands at the well-known address. Disposing
 * drains: runs that can sleep are suspended in the log, others get their final event; then the
 * listener, the log (when it is ours) and `resources` close, in that order.
 */
export async function serve(
  agents: Agent | Readonly<Record<string, AgentModule>>,
  options: ServeOptions = {},
): Promise<Served> {
  const modules = typeof agents === 'function' ? { agent: { default: agents, options } } : agents;
  const names = Object.keys(modules);
  if (names.length === 0) throw new DuolaneError('invalid', 'serve() needs at least one agent');
  const { host = '127.0.0.1', port = 0 } = options;
  const guard = createGuard(host, options.auth as Auth | undefined);
  const log = options.log ?? (await openStore(DEFAULT_STORE));
  const runner = createRunner({
    log,
    ...(options.graceMs !== undefined && { graceMs: options.graceMs }),
    agents: Object.fromEntries(names.map((name) => [name, (modules[name] as AgentModule).default])),
  });

  let route = async (_request: Request, _owner?: string): Promise<Response> =>
    plain(503, 'starting');
  const listening = await listen(
    async (request) => {
      const { response, owner } = await guard(request);
      return response ?? route(request, owner);
    },
    { host, port },
  );
  const servers = names.map((name) => {
    const description = describe(name, modules[name] as AgentModule);
    const url = `${listening.url}/a2a/${encodeURIComponent(name)}`;
    return { name, description, server: a2aServer({ agent: name, description, url, log, runner }) };
  });
  const [first] = servers as [(typeof servers)[number]];
  const routes: readonly Route[] = [
    ...servers.flatMap(({ name, server }): Route[] => [
      {
        method: 'POST',
        path: `/a2a/${name}`,
        handle: ({ request, owner }) => server.rpc(request, owner),
      },
      {
        method: 'GET',
        path: `/a2a/${name}/.well-known/agent-card.json`,
        handle: ({ request }) => server.card(request),
      },
    ]),
    {
      method: 'POST',
      path: '/a2a',
      handle: ({ request, owner }) => first.server.rpc(request, owner),
    },
    {
      method: 'GET',
      path: '/.well-known/agent-card.json',
      handle: ({ request }) => first.server.card(request),
    },
    { method: 'GET', path: '/healthz', handle: () => plain(200, 'ok') },
    ...apiRoutes({
      agents: servers.map(({ name, description }) => ({
        name,
        description: description.description,
        ...(modules[name]?.options?.form && { form: modules[name].options.form }),
      })),
      log,
      runner,
      heartbeatMs: HEARTBEAT_MS,
    }),
    ...(options.page === false ? [] : pageRoutes),
  ];
  route = createRouter(routes);

  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await runner[Symbol.asyncDispose]();
    await listening[Symbol.asyncDispose]();
    if (!options.log) await log[Symbol.asyncDispose]();
    const resources = [
      ...(options.resources ?? []),
      ...Object.values(modules).flatMap((module) => module.options?.resources ?? []),
    ];
    for (const resource of resources.toReversed()) await resource[Symbol.asyncDispose]();
  };
  return {
    url: listening.url,
    log,
    [Symbol.asyncDispose]: () => (closing ??= close()),
  };
}

/** The log in a file, made with its folder; the embedded default. */
export async function openStore(file: string): Promise<TaskLog> {
  const { sqliteLog } = await import('../task/sqlite.ts');
  await mkdir(dirname(file), { recursive: true });
  return sqliteLog({ file });
}

function describe(name: string, module: AgentModule): AgentDescription {
  const card = (module.options?.card ?? {}) as Partial<AgentDescription>;
  return {
    ...card,
    name: card.name ?? name,
    description: card.description ?? `The agent ${name}.`,
  };
}
