const CORE = ['errors', 'json', 'ask', 'http-status', 'stream', 'wire', 'event'] as const;
const PARTS = ['process', 'mcp', 'host', 'agent-cli', 'task', 'a2a', 'adapters'] as const;
const BELOW_SERVE = [...CORE, ...PARTS, 'outputs', 'trace', 'metrics', 'http', 'grpc'] as const;

/**
 * The layers: which parts of `src/` a part may import, types included. The order of the lines is
 * the reading order. A longer path (`adapters/cli-agent`) replaces the line of its folder for that
 * file or folder. A new folder needs a line here, so that a reviewer sees it.
 */
export const LAYERS: Readonly<Record<string, readonly string[]>> = {
  errors: [],
  json: [],
  ask: ['json'],
  'http-status': ['errors'],
  stream: ['errors'],
  wire: ['errors', 'json', 'stream'],
  event: ['errors', 'json', 'ask', 'http-status', 'stream'],
  process: ['errors', 'stream'],
  mcp: ['errors', 'json', 'ask', 'stream', 'wire'],
  'mcp/grpc': ['errors', 'json', 'ask', 'stream', 'wire', 'grpc'],
  'mcp/json-rpc/http': ['errors', 'json', 'ask', 'http-status', 'stream', 'wire', 'http'],
  'mcp/json-rpc/stdio': ['errors', 'json', 'ask', 'stream', 'wire', 'process'],
  host: [...CORE, 'process', 'mcp'],
  'agent-cli': [...CORE, 'process', 'mcp'],
  http: ['errors', 'stream', 'wire'],
  grpc: ['errors', 'stream', 'http'],
  task: ['errors', 'json', 'ask', 'stream', 'event'],
  'mcp/tasks': ['errors', 'json', 'ask', 'stream', 'wire', 'event', 'task'],
  a2a: [...CORE, 'http', 'task'],
  'a2a/grpc': [...CORE, 'http', 'task', 'grpc'],
  client: ['errors', 'ask', 'a2a'],
  adapters: ['errors', 'json', 'ask', 'event'],
  'adapters/cli-agent': ['errors', 'json', 'ask', 'stream', 'event', 'host', 'mcp'],
  'adapters/allowed-by-options': ['host', 'mcp'],
  'adapters/cli-questions': ['errors', 'ask', 'stream', 'event'],
  'adapters/choose-cli-session': ['event', 'host', 'mcp'],
  'adapters/finish-calls': ['json', 'ask', 'event', 'host', 'mcp'],
  'adapters/recorded-tools': ['json', 'host', 'mcp'],
  'adapters/task-session-store': ['json', 'event', 'host', 'mcp'],
  'adapters/transcript-progress': ['json', 'event', 'host', 'mcp'],
  'adapters/shared/tool-call': ['errors', 'json', 'ask', 'event', 'mcp'],
  'adapters/anthropic': ['errors', 'json', 'ask', 'stream', 'event', 'mcp'],
  'adapters/langgraph': ['json', 'ask', 'stream', 'event'],
  'adapters/acp': ['errors', 'json', 'ask', 'stream', 'wire', 'event', 'process'],
  'adapters/remote': ['errors', 'json', 'ask', 'stream', 'event', 'mcp', 'task', 'a2a'],
  outputs: ['errors', 'json', 'ask', 'wire', 'event'],
  trace: ['errors', 'json', 'stream', 'wire', 'event'],
  metrics: ['errors', 'json', 'event', 'task'],
  eval: ['errors', 'json', 'ask', 'event', 'task', 'metrics'],
  testing: [...CORE, 'mcp', 'task'],
  serve: BELOW_SERVE,
  index: [...CORE, 'mcp', 'host'],
  cli: [...BELOW_SERVE, 'eval', 'serve', 'index'],
};

/** Folders of one part that must not import each other: a user connects them with a bridge. */
export const STRANGERS: readonly (readonly [string, string])[] = [['mcp/grpc', 'mcp/json-rpc']];

/**
 * The folders that may import a package or a dangerous module of Node. `loads`: with an ordinary
 * import. `lazily`: only by `import()` where it is needed, or for its types. No other folder may.
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
  aws4fetch: { lazily: ['task/s3'] },
  '@opentelemetry/api': { lazily: ['metrics'] },
  '@photostructure/sqlite': { loads: ['task/sqlite'], lazily: ['task', 'serve', 'cli'] },
};

/**
 * Files that load a module or plug-in that a user names. No other file computes what it imports.
 */
export const LOADERS: readonly string[] = [
  'agent-cli/models/choose-model',
  'cli/agents/load-agent',
];

/**
 * Doors that also run where Node's modules do not exist, such as in a browser. No module that they
 * load, statically or lazily, is one of Node, and their sources compile without the types of Node.
 */
export const PORTABLE: readonly string[] = ['client'];

/** Pure parts: bytes and messages in and out. They import no I/O of Node. */
export const PURE: readonly string[] = ['errors', 'json', 'ask', 'http-status', 'wire', 'outputs'];

/**
 * Every folder of `src/` and `web/src/`, with what it holds. A new folder gets its sentence here.
 */
export const FOLDERS: Readonly<Record<string, string>> = {
  src: 'error codes, JSON readers, questions, HTTP status mapping, the main door',
  'src/stream': 'queues, channels, abort and disposal helpers; knows no protocol',
  'src/wire': 'pure codecs and state machines: JSONL, SSE, JSON-RPC, control protocol, transcripts',
  'src/process': 'child processes: start, pipes, environment, process tree, watchdog',
  'src/event': 'event types, entry codec, event ids, law checker, throttling',
  'src/event/fold': 'which entry may follow, the fold to a snapshot, recovery of interrupted runs',
  'src/event/run': 'run state machine, and the decorator that normalizes what an agent yields',
  'src/event/retry': 'withRetry, its policy, errors of model providers',
  'src/event/text': 'surrogate-safe slicing, yes/no text',
  'src/task': 'task types, blob store, ids, helpers for agent authors',
  'src/task/log': 'TaskLog over a store: readers, claims, lists, followTask',
  'src/task/run': 'runner: claimed tasks, agent runs, batched writes',
  'src/task/blobs': 'rules of all blob stores, blobs in PostgreSQL',
  'src/task/s3': 'blobs in a bucket of S3: client, uploads, XML',
  'src/task/store': 'store port, its rules, storage-engine port, line codec, compaction',
  'src/task/memory': 'store in maps',
  'src/task/sqlite': 'store in one file, on a worker thread',
  'src/task/postgres': 'store for many replicas: group commit, queries, wake-up buses',
  'src/a2a': 'A2A 0.3 and 1.0, server and client; only the door stands here',
  'src/a2a/protocol': 'A2A 1.0 model, errors, dialects, encoders, agent card',
  'src/a2a/v0.3': 'everything that differs in A2A 0.3',
  'src/a2a/server': 'bindings, dispatch, task operations, task streams',
  'src/a2a/client': 'client, transports, resumable stream, task fold',
  'src/client': 'the A2A client for browsers, workers and every runtime; only the door stands here',
  'src/a2a/push': 'webhook configs, receivers, delivery',
  'src/a2a/grpc': 'gRPC binding of server and client',
  'src/http': 'node:http server and fetch with web types, SSE responses, open streams, ETag',
  'src/metrics': 'run and stream metrics, Prometheus, OpenTelemetry',
  'src/outputs': 'encoders and request parsers for AG-UI, UI messages and stream-json',
  'src/adapters': 'an agent CLI, or growing text, as an agent',
  'src/adapters/shared': 'what several adapters use: approval, earlier messages, tool calls',
  'src/adapters/stream-json': 'stream-json frames to agent events',
  'src/adapters/acp': 'agents that speak the Agent Client Protocol over stdio',
  'src/adapters/ai-sdk': 'AI SDK 5 to 7',
  'src/adapters/anthropic': 'Messages API through the official client',
  'src/adapters/google-adk': 'Agent Development Kit',
  'src/adapters/langgraph': 'LangGraph.js',
  'src/adapters/mastra': 'Mastra 1',
  'src/adapters/openai-agents': 'OpenAI Agents SDK',
  'src/adapters/remote': 'an agent on another A2A server',
  'src/host': 'drive an agent CLI; the door and its types stand here',
  'src/host/query': 'query(), startup() and the control methods on a query',
  'src/host/session': 'one agent CLI process: handshake, turns, stdin gate, timeouts, exit',
  'src/host/frames': 'bytes to frames and back, the frame queue and its iterator, trace file',
  'src/host/launch': 'command, flags, environment and initialize request of the CLI',
  'src/host/options': 'the options, their validation, mcpServers',
  'src/host/callbacks': 'handlers for the CLI: MCP bridge, permissions, hooks, elicitation',
  'src/host/transcripts': 'list sessions, session stores, mirroring',
  'src/host/sdk-types': 'types that carry the names of the official SDK',
  'src/agent-cli': 'entry point of duolane-agent',
  'src/agent-cli/acp': 'duolane-agent --acp: an agent for editors, one process for each session',
  'src/agent-cli/command-line': 'flags, settings, stdout, text printer',
  'src/agent-cli/loop': 'the agent loop and its handlers for host requests',
  'src/agent-cli/session': 'state that all turns share: history, prompt queue, transcript',
  'src/agent-cli/turn': 'one turn: model steps, tool calls, permission requests, SDK messages',
  'src/agent-cli/permissions': 'policy, rules, hooks',
  'src/agent-cli/sandbox': 'the operating-system boundary around commands',
  'src/agent-cli/models': 'one file per model driver',
  'src/agent-cli/tools': 'call schedule, structured output, tool types',
  'src/agent-cli/tools/builtin': 'Bash, file and search tools, workspace',
  'src/agent-cli/tools/mcp': 'MCP servers of the session',
  'src/mcp': 'tools as streams; the door and its types stand here',
  'src/mcp/registry': 'functions as a ToolSource: definition, registry, one run of a handler',
  'src/mcp/schema': 'zod, Standard Schema and JSON Schema to one compiled form',
  'src/mcp/sources': 'gateway, pool, lazy connection, change feed, cursor pages, ask rounds',
  'src/mcp/relay': 'bridges: a connection for each client, messages passed on unchanged',
  'src/mcp/json-rpc': 'what client and server share, stdio, in-process',
  'src/mcp/json-rpc/client': 'dialled server as a ToolSource',
  'src/mcp/json-rpc/server': 'ToolSource as JSON-RPC methods',
  'src/mcp/json-rpc/http': 'headers and bodies of both sides',
  'src/mcp/json-rpc/http/client': 'Streamable HTTP and SSE transports',
  'src/mcp/json-rpc/http/client/oauth': 'login for dialHttp',
  'src/mcp/json-rpc/http/server': 'mcpHandler, sessions, resumable streams, origin guard',
  'src/mcp/grpc': 'tunnel, routing metadata, questions in unary requests',
  'src/mcp/grpc/client': 'dialGrpc and its lists',
  'src/mcp/grpc/server': 'offerGrpc, typed routes, routes of the other proto',
  'src/mcp/grpc/codec': 'messages to and from JSON values',
  'src/mcp/tasks': 'long calls as tasks of a task log',
  'src/grpc': 'gRPC over node:http2, for any service',
  'src/trace': "read traces, check them against the doctor's rules, describe frames",
  'src/eval': 'run cases, score, report, OTLP export',
  'src/testing': 'simulate(): options, report, and the search for a schedule that breaks a law',
  'src/testing/tasks': 'processes that share a store, and one agent that runs on them with faults',
  'src/testing/tools': 'a client that calls tools over a connection, with faults',
  'src/testing/kernel':
    'a world with its own time and chance: events, machines, virtual timers, shrinking',
  'src/serve': 'serve(), its options, router',
  'src/serve/auth': 'guard, JWT, shared secrets, login sessions, CORS',
  'src/serve/routes': 'A2A mounts, page API, front ends, blobs, metrics, gRPC listener',
  'src/cli': 'entry point of the command, argument parsing, command table',
  'src/cli/commands': 'one file per command',
  'src/cli/commands/demo': 'the demo, and the runner of its faults',
  'src/cli/commands/demo/faults': 'one common mistake per file',
  'src/cli/commands/doctor': 'checks of the installation, of traces and of servers',
  'src/cli/commands/new': 'the template of a new agent',
  'src/cli/agents': 'load an agent module, chat with it here or over A2A',
  'src/cli/terminal': 'output, printers, prompts, logger',
  'web/src': 'the app and its entry point',
  'web/src/api': 'requests of the page API, and its two streams',
  'web/src/state': 'folds and hooks without markup: task view, spans, contract check, connection',
  'web/src/trace': 'both lanes over time: waterfall, mini-map, event list',
  'web/src/inspector': 'the details of one event, and the texts that can be copied',
  'web/src/task': 'one task: page, header, conversation, question card, artifact, contract',
  'web/src/runs': 'the table of runs, the run form, replicas, the stream of changes',
  'web/src/inbox': 'everything that waits for a person',
  'web/src/tools': 'the tool servers: lists, calls, questions, apps in frames, the MCP client',
  'web/src/shell': 'top bar, theme, addresses, sign-in',
  'web/src/tour': 'the guided tour: steps, card, and what it counts',
  'web/src/ui': 'controls, tabs, dialog, form fields, data view, markdown, table data',
  'web/src/style': 'design tokens and plain elements; classes are in the module of their component',
};

/**
 * Folders that must not import others of their part, so that each part imports in one direction.
 */
export const ONE_WAY: readonly (readonly [from: string, to: string])[] = [
  ['event/fold', 'event/run'],
  ['task/store', 'task/log'],
  ['task/store', 'task/run'],
  ['task/log', 'task/run'],
  ['task/memory', 'task/run'],
  ['task/sqlite', 'task/run'],
  ['task/postgres', 'task/run'],
  ['task/blobs', 'task/run'],
  ['task/s3', 'task/run'],
  ['a2a/protocol', 'a2a/server'],
  ['a2a/protocol', 'a2a/client'],
  ['a2a/v0.3', 'a2a/server'],
  ['a2a/v0.3', 'a2a/client'],
  ['a2a/push', 'a2a/server'],
  ['a2a/push', 'a2a/client'],
  ['a2a/client', 'a2a/server'],
  ['a2a/server', 'a2a/client'],
  ['mcp/json-rpc/client', 'mcp/json-rpc/server'],
  ['mcp/json-rpc/server', 'mcp/json-rpc/client'],
  ['mcp/json-rpc/http/client', 'mcp/json-rpc/http/server'],
  ['mcp/json-rpc/http/server', 'mcp/json-rpc/http/client'],
  ['host/frames', 'host/session'],
  ['host/sdk-types', 'host/session'],
  ['agent-cli/session', 'agent-cli/turn'],
  ['agent-cli/session', 'agent-cli/loop'],
  ['agent-cli/turn', 'agent-cli/loop'],
  ['serve/auth', 'serve/routes'],
  ['cli/agents', 'cli/commands'],
  ['cli/terminal', 'cli/commands'],
];
