const CORE = ['errors', 'json', 'ask', 'stream', 'wire', 'event'] as const;
const PARTS = ['process', 'mcp', 'host', 'agent-cli', 'task', 'a2a', 'adapters'] as const;
const BELOW_SERVE = [...CORE, ...PARTS, 'outputs', 'trace', 'metrics', 'http', 'grpc'] as const;

/**
 * The map of the code: which parts of `src/` a part may import, types included. Read from top to
 * bottom it is the reading order. A longer path (`adapters/cli-agent`) replaces the line of its folder
 * for that file or folder. A new folder needs a line here, a decision that a reviewer can see.
 */
export const LAYERS: Readonly<Record<string, readonly string[]>> = {
  errors: [],
  json: [],
  ask: ['json'],
  stream: ['errors'],
  wire: ['errors', 'json'],
  event: ['errors', 'json', 'ask', 'stream'],
  grpc: ['errors', 'stream'],
  process: ['errors', 'stream'],
  mcp: ['errors', 'json', 'ask', 'stream', 'wire'],
  'mcp/grpc': ['errors', 'json', 'ask', 'stream', 'wire', 'grpc'],
  'mcp/json-rpc/http': ['errors', 'json', 'ask', 'stream', 'wire', 'http'],
  'mcp/json-rpc/stdio': ['errors', 'json', 'ask', 'stream', 'wire', 'process'],
  host: [...CORE, 'process', 'mcp'],
  'agent-cli': [...CORE, 'process', 'mcp'],
  http: ['errors', 'stream', 'wire'],
  task: ['errors', 'json', 'ask', 'stream', 'event'],
  a2a: [...CORE, 'http', 'task'],
  'a2a/grpc': [...CORE, 'http', 'task', 'grpc'],
  adapters: ['errors', 'json', 'ask', 'event'],
  'adapters/cli-agent': ['errors', 'json', 'ask', 'stream', 'event', 'host', 'mcp'],
  'adapters/shared/tool-call': ['errors', 'json', 'ask', 'event', 'mcp'],
  'adapters/anthropic': ['errors', 'json', 'ask', 'stream', 'event', 'mcp'],
  outputs: ['errors', 'json', 'ask', 'wire', 'event'],
  trace: ['errors', 'json', 'stream', 'wire', 'event'],
  metrics: ['errors', 'json', 'event', 'task'],
  eval: ['errors', 'json', 'ask', 'event', 'task', 'metrics'],
  serve: BELOW_SERVE,
  index: [...CORE, 'mcp', 'host'],
  cli: [...BELOW_SERVE, 'eval', 'serve', 'index'],
};

/** Folders of one part that must not know each other: what knows both is a bridge, made outside. */
export const STRANGERS: readonly (readonly [string, string])[] = [['mcp/grpc', 'mcp/json-rpc']];

/**
 * Who may import a package or a dangerous module of Node. `loads`: with an ordinary import.
 * `lazily`: only by `import()` where it is needed, or for its types. Everybody else must not.
 * A path that ends a file name (`task/sqlite`) covers that file or folder alone.
 */
export const PACKAGES: Readonly<
  Record<string, { readonly loads?: readonly string[]; readonly lazily?: readonly string[] }>
> = {
  'node:child_process': { loads: ['process'] },
  'node:cluster': {},
  'node:sqlite': {},
  '@bufbuild/protobuf': { loads: ['grpc', 'mcp/grpc', 'a2a/grpc'], lazily: ['a2a', 'cli'] },
  zod: { lazily: ['mcp', 'agent-cli', 'serve', 'cli'] },
  ajv: { lazily: ['mcp', 'agent-cli', 'serve', 'cli'] },
  jose: { lazily: ['mcp', 'serve'] },
  pg: { lazily: ['task/postgres'] },
  '@opentelemetry/api': { lazily: ['metrics'] },
  '@photostructure/sqlite': { loads: ['task/sqlite'], lazily: ['task', 'serve', 'cli'] },
};

/** Files that load what a user names: a module, a plug-in. Nobody else computes what it imports. */
export const LOADERS: readonly string[] = [
  'agent-cli/models/choose-model',
  'cli/agents/load-agent',
];

/** Parts that are pure: bytes and messages in and out, so they import no I/O of Node at all. */
export const PURE: readonly string[] = ['errors', 'json', 'ask', 'wire', 'outputs'];
