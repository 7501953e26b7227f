/** The groups of requirements, in reading order. */
export const GROUPS = {
  G1: 'Process and transport',
  G2: 'Two lanes',
  G3: 'Control envelope',
  G4: 'Initialize and server declaration',
  G5: 'In-process MCP server',
  G6: 'Tool names, permissions, hooks',
  G7: 'Long and concurrent tool calls',
  G8: 'Prompt input and the life of stdin',
  G9: 'Shutdown and errors',
  G10: 'Watching the two lanes',
  G11: 'A2A over SSE: the contract',
  G12: 'Text streaming and adapters',
  G13: 'Intermediate status',
  G14: 'Artifacts',
  G15: 'Cooperative cancel',
  G16: 'Cancel across replicas',
  G17: 'Reconnect and the task store',
  G18: 'Retry of model errors',
  G19: 'First-token latency',
  G20: 'Example: clinical briefing',
  G21: 'Examples: distill spec, tickets',
  G22: 'MCP layer of agents',
  G23: 'MCP streaming core',
  G24: 'gRPC and cursor emulation',
  G25: 'Bridge between protocols',
  G26: 'Debugging, evaluation, teaching',
} as const;

export type Group = keyof typeof GROUPS;

/** The part that must fulfil a row: a folder of `src/`, the page, the examples or the docs. */
export type Part =
  | 'wire'
  | 'process'
  | 'mcp'
  | 'host'
  | 'agent-cli'
  | 'task'
  | 'a2a'
  | 'adapters'
  | 'trace'
  | 'serve'
  | 'page'
  | 'examples'
  | 'docs';

/** R: a rule. N: a number or literal. E: an edge case. I: implied, because a rule needs it. */
export type Kind = 'R' | 'N' | 'E' | 'I';

/** `[group, owner, kind, what must hold]` per row; a row is done when a test proves it. */
// oxfmt-ignore
const ROWS = {
  S1: ['G1', 'host', 'R', 'The host opens no socket to a model: it starts an agent CLI and speaks only over its pipes'],
  S2: ['G1', 'wire', 'R', 'Both directions are JSONL, one object and one newline; any chunking, CRLF and U+2028 survive'],
  S3: ['G1', 'host', 'R', 'The CLI is started with stream-json as its input and its output format'],
  S4: ['G1', 'host', 'R', 'The transport always streams and knows nothing of prompts; the layer above decides their kind'],
  S5: ['G1', 'host', 'R', 'query(), session, control handling, transport and parser are separate layers, each testable alone'],
  S6: ['G1', 'host', 'R', 'Behind query(): a message reader, a router of control requests and a bridge to MCP servers'],
  S7: ['G1', 'host', 'R', 'Input of the agent goes to its stdin and its output comes from its stdout, nothing else'],
  S8: ['G1', 'docs', 'R', 'The protocol is written down with recorded samples, so any language can implement it'],
  S9: ['G1', 'host', 'I', 'The transport can be replaced: a child process by default, memory or a remote one by choice'],
  S10: ['G1', 'host', 'E', 'A stdin that closes too early, at any step, ends in a typed error and never without a report'],
  S11: ['G1', 'host', 'I', 'Closing a query stops its input writer immediately, even if the prompt iterator has more items'],
  S12: ['G1', 'host', 'R', 'Lines become typed messages; unknown types and fields pass through without an error'],
  S13: ['G1', 'process', 'I', 'A missing executable, a crash or a non-zero exit is a typed error with exit code and last stderr'],

  S14: ['G2', 'host', 'R', 'One pipe carries two lanes: control for tools, permissions and hooks, message for what a user sees'],
  S15: ['G2', 'host', 'R', 'A control request is handled in the background and never shows up in the message iterator'],
  S16: ['G2', 'host', 'R', 'Everything that is not control reaches the message lane, in order'],
  S17: ['G2', 'host', 'R', 'control_request and control_response are not delivered; user, assistant and result are'],
  S18: ['G2', 'host', 'R', 'A result message ends the turn, and with it the iterator of that response'],
  S19: ['G2', 'host', 'R', 'Two ways to read: every message, or the messages up to the result of the turn'],
  S20: ['G2', 'host', 'R', 'Draining a response and ignoring its messages is a complete program: tools run meanwhile'],
  S21: ['G2', 'host', 'E', 'A turn finishes, tools included, even if its messages are never iterated'],
  S22: ['G2', 'host', 'R', 'While its messages are iterated, the connection stays open until the result has come'],
  S23: ['G2', 'host', 'R', 'Neither lane waits for the other: tools/call, can_use_tool, hook_callback and mcp_message all pass'],
  S24: ['G2', 'host', 'E', 'A paused reader with 1,000 messages waiting blocks no tool call, and memory stays bounded'],
  S25: ['G2', 'host', 'R', 'The basic turn: a user message goes in, assistant messages come out, then the result'],
  S26: ['G2', 'host', 'N', 'User messages are written in full (session_id, parent_tool_use_id); the short form is accepted'],
  S27: ['G2', 'host', 'I', 'System, init and other kinds of message are delivered, typed where known and raw otherwise'],

  S28: ['G3', 'wire', 'R', 'A request is { type: control_request, request_id, request: { subtype, … } }'],
  S29: ['G3', 'wire', 'R', 'A response is nested: subtype, request_id and payload sit inside its response member'],
  S30: ['G3', 'wire', 'R', 'The flat form (request_id on top, bare JSON-RPC inside) is understood when read, never written'],
  S31: ['G3', 'wire', 'R', 'Both sides send requests and both respond: a control_response answers our initialize'],
  S32: ['G3', 'wire', 'R', 'Each request has its own id; responses find their request by it in any order'],
  S33: ['G3', 'host', 'R', 'We write initialize and user messages; we read assistant messages, can_use_tool, mcp_message'],
  S34: ['G3', 'host', 'E', 'A response that cannot be written, because stdin is closed, is reported as an event and an error'],
  S35: ['G3', 'host', 'R', 'Every control request runs on its own: of 32 concurrent ones, a slow one delays no other'],
  S36: ['G3', 'host', 'R', 'Hook callbacks and their results use the control lane'],
  S37: ['G3', 'wire', 'I', 'A failure, or an unknown subtype, gets a response with subtype error and a text'],
  S38: ['G3', 'wire', 'I', 'A response to an unknown or completed request is logged and otherwise ignored'],
  S39: ['G3', 'host', 'I', 'Control frames may come between any two messages, before the first and after the result'],

  S40: ['G4', 'host', 'R', 'A session opens with initialize, which lists the names of our in-process servers'],
  S41: ['G4', 'host', 'R', 'The CLI gets the names of in-process servers only: no function, no schema, no instance'],
  S42: ['G4', 'host', 'R', 'External servers (stdio, HTTP, SSE) are passed on, and the CLI starts or dials them'],
  S43: ['G4', 'host', 'R', 'Calls to a declared in-process server come back to us as mcp_message'],
  S44: ['G4', 'host', 'N', 'The system prompt may be the preset object { type: preset, preset: claude_code }'],
  S45: ['G4', 'host', 'R', 'Agents and hooks are part of initialize, also when there are none'],
  S46: ['G4', 'host', 'R', 'Four kinds of server: stdio, http, sse and in-process; only the last uses mcp_message'],
  S47: ['G4', 'mcp', 'R', 'An in-process server is configured as { type: sdk, name, instance }'],
  S48: ['G4', 'host', 'R', 'Declaring in-process servers does not change the external ones'],
  S49: ['G4', 'host', 'R', 'The CLI discovers tools with tools/list after initialization, not from initialize'],
  S50: ['G4', 'host', 'I', 'A session may have several in-process servers, and concurrent sessions may share one server'],

  S51: ['G5', 'mcp', 'R', 'createSdkMcpServer creates a server inside this process: no child, no socket, no pipe'],
  S52: ['G5', 'mcp', 'N', 'The handshake reports the name and version that the server was given'],
  S53: ['G5', 'mcp', 'R', 'The response to initialize has protocol version, capabilities and server info'],
  S54: ['G5', 'mcp', 'R', 'notifications/initialized changes nothing, but its control request is acknowledged'],
  S55: ['G5', 'mcp', 'R', 'tools/list returns the name, description and input schema of every tool'],
  S56: ['G5', 'mcp', 'R', 'tools/call runs the named handler with its arguments and returns content'],
  S57: ['G5', 'mcp', 'R', 'ping returns an empty result'],
  S58: ['G5', 'mcp', 'R', 'A server of tools alone needs no resources, prompts or sampling; other methods are errors'],
  S59: ['G5', 'mcp', 'N', 'An unknown method is JSON-RPC error -32601 with text "Unknown method: <name>"'],
  S60: ['G5', 'mcp', 'R', 'Invalid parameters are JSON-RPC error -32602'],
  S61: ['G5', 'mcp', 'R', 'A handler that throws gives a result with isError and text "Error: …", not a protocol error'],
  S62: ['G5', 'mcp', 'E', 'A kind outside the enum is refused with a text that names the kind and the allowed ones'],
  S63: ['G5', 'mcp', 'R', 'A tool has a name, a description and an object schema, given as zod or as JSON Schema'],
  S64: ['G5', 'mcp', 'R', 'Result content is a list of typed blocks: text, image, resource'],
  S65: ['G5', 'agent-cli', 'R', 'The CLI passes the result to the model as tool_result, and the conversation continues'],
  S66: ['G5', 'mcp', 'R', 'Inside mcp_message, the JSON-RPC method decides what is called'],
  S67: ['G5', 'mcp', 'R', 'Any server object of the official MCP SDK is served through its Transport interface'],
  S68: ['G5', 'mcp', 'R', 'A response keeps the id of its request, whether it is 0, a string or a large number'],
  S69: ['G5', 'mcp', 'R', 'One registry: register, unregister, look up, list, and one entry point for messages of any backend'],
  S70: ['G5', 'host', 'E', 'A message for a server that does not exist gets an error response and is never dropped'],
  S71: ['G5', 'mcp', 'I', 'Handlers may be sync or async, and one that throws does not affect other calls'],
  S72: ['G5', 'agent-cli', 'R', 'The list of tools that the model gets is built from tools/list'],
  S73: ['G5', 'mcp', 'I', 'A tool with an invalid schema is reported by its name; the other tools stay available'],

  S74: ['G6', 'mcp', 'N', 'The model sees mcp__<server>__<tool>; a helper builds the name and parses it'],
  S75: ['G6', 'mcp', 'R', 'tools/list and tools/call use the bare name of the tool'],
  S76: ['G6', 'agent-cli', 'R', 'Only the CLI adds the prefix; only the model and tool events show it'],
  S77: ['G6', 'agent-cli', 'R', 'allowedTools accepts mcp__<server>__* and then permits every tool of that server'],
  S78: ['G6', 'host', 'R', 'Permission modes such as acceptEdits and bypassPermissions are passed to the CLI'],
  S79: ['G6', 'host', 'R', 'can_use_tool waits for a decision: allow, deny, or allow with changed input'],
  S80: ['G6', 'agent-cli', 'R', 'A tool of the host app is not allowed unless a rule, a hook or a person allows it'],
  S81: ['G6', 'examples', 'R', 'An app permits its own internal tools through allowedTools'],
  S82: ['G6', 'host', 'R', 'A hook keeps stdin open just as a tool does'],
  S83: ['G6', 'host', 'R', 'A permission request and a tool call may run concurrently'],
  S84: ['G6', 'host', 'I', 'A permission callback alone, without hooks or servers, keeps stdin open'],
  S85: ['G6', 'host', 'I', 'Permission requests are routed by us and decided by the app: callback, rule or default'],

  S86: ['G7', 'host', 'R', 'The response is sent when the handler is done; the CLI waits, even for 90 seconds'],
  S87: ['G7', 'host', 'R', 'A handler may wait for a person, and responds when the person has decided'],
  S88: ['G7', 'host', 'N', 'An option sets CLAUDE_CODE_STREAM_CLOSE_TIMEOUT for CLIs that need it beyond 60 s'],
  S89: ['G7', 'host', 'R', 'Many mcp_message requests may be open concurrently; 32 are proven'],
  S90: ['G7', 'host', 'R', 'Open calls are tracked by request_id, run independently and answered under the same id'],
  S91: ['G7', 'host', 'E', 'Calls need not overlap: a CLI that sends one after another works as well'],
  S92: ['G7', 'host', 'E', 'A call that is open at the result or at close is aborted, and its late response is dropped'],
  S93: ['G7', 'mcp', 'I', 'A handler gets an AbortSignal and can report progress'],

  S94: ['G8', 'host', 'R', 'A prompt is a string or an async iterable'],
  S95: ['G8', 'host', 'E', 'Write one line and close stdin exists only as an explicit one-shot, for runs without tools or questions'],
  S96: ['G8', 'host', 'E', 'A string prompt with tools works; a naive client that closes stdin is shown to fail on it'],
  S97: ['G8', 'host', 'E', 'A tool response that was lost is detected and named, instead of an invented result'],
  S98: ['G8', 'host', 'R', 'asStream(text) is exported, and every string prompt goes through it'],
  S99: ['G8', 'host', 'R', 'A background writer sends each message of the prompt iterator as one line'],
  S100: ['G8', 'host', 'R', 'When the iterator ends, stdin stays open for the result if tools or hooks exist, else it closes immediately'],
  S101: ['G8', 'host', 'R', 'That wait has a limit that can be configured'],
  S102: ['G8', 'host', 'R', 'The reader detects the first result and notifies what waits for it'],
  S103: ['G8', 'host', 'R', 'stdin is open for the complete turn, through all of its tool calls'],
  S104: ['G8', 'host', 'R', 'Users need no rule about iterators: the interface cannot be used in the way that fails'],
  S105: ['G8', 'host', 'I', 'The iterator may yield further messages later: several turns in one session'],
  S106: ['G8', 'host', 'I', 'stdin stays open after a result while background tasks or queued messages remain'],

  S107: ['G9', 'host', 'R', 'close(): mark closed, cancel the background work, wait for it, then close the transport'],
  S108: ['G9', 'host', 'R', 'Normal end, break and throw all close, and leave no process behind'],
  S109: ['G9', 'host', 'E', 'Closing while a late request is being answered is clean, proven by 1,000 forced races'],
  S110: ['G9', 'host', 'R', 'Once there is a valid result, a connection error during shutdown is only a warning'],
  S111: ['G9', 'host', 'R', 'Without a result the same error is a failure with code CLI_CONNECTION_ERROR'],
  S112: ['G9', 'host', 'R', 'Every other error is rethrown unchanged'],
  S113: ['G9', 'host', 'E', 'The connection error is recognised bare and inside an AggregateError'],
  S114: ['G9', 'host', 'R', 'Errors of a shutdown never look like a failure: no unhandled rejection, exit code 0'],
  S115: ['G9', 'host', 'R', 'An ignored error is logged as a warning that names the existing result'],
  S116: ['G9', 'process', 'I', 'Closing ends the child: its input first, then SIGTERM, then SIGKILL, for the complete process tree'],
  S117: ['G9', 'host', 'I', 'A cancel is not reported as an error'],

  S118: ['G10', 'host', 'R', 'The message lane can be watched by a built-in tap'],
  S119: ['G10', 'host', 'R', 'The control lane can be watched by an option, without patching anything'],
  S120: ['G10', 'trace', 'R', 'After a run, a check shows that a tool was called and returned the right type, with clear failures'],
  S121: ['G10', 'host', 'R', 'Ignored shutdown errors and cancelled work leave structured log lines'],

  S122: ['G11', 'a2a', 'R', 'Every agent streams its response as text/event-stream'],
  S123: ['G11', 'a2a', 'R', 'A2A streaming and MCP Streamable HTTP are two separate layers'],
  S124: ['G11', 'a2a', 'R', 'The first event is a Task in state submitted'],
  S125: ['G11', 'a2a', 'R', 'Then come status updates in state working, any number of them'],
  S126: ['G11', 'a2a', 'R', 'Artifact updates carry results, any number of them'],
  S127: ['G11', 'a2a', 'R', 'The last event is a final status in a terminal state'],
  S128: ['G11', 'a2a', 'R', 'Each event is one JSON-RPC 2.0 response on one data line'],
  S129: ['G11', 'a2a', 'I', 'Every event of a stream carries the id of the request that opened it'],
  S130: ['G11', 'task', 'R', 'No stream ends without a final event: not on a throw, a crash, a timeout or a shutdown'],
  S131: ['G11', 'a2a', 'E', 'A client that loses its connection resubscribes; an unknown task is an error'],
  S132: ['G11', 'task', 'I', 'There is exactly one final event, and nothing follows it'],
  S133: ['G11', 'task', 'I', 'A state machine in the library enforces the contract, whatever the executor yields'],
  S134: ['G11', 'a2a', 'I', 'The server has message/send, tasks/get, tasks/cancel and a card with the streaming capability'],
  S135: ['G11', 'a2a', 'I', 'Headers, flushing and heartbeat comments keep proxies from delaying events'],

  S136: ['G12', 'adapters', 'R', 'Pattern of Pydantic AI: growing text is forwarded as working status'],
  S137: ['G12', 'adapters', 'R', 'A source that yields all text so far is not mistaken for one that yields deltas'],
  S138: ['G12', 'a2a', 'R', 'One message is updated in place: its id is the same for every chunk'],
  S139: ['G12', 'a2a', 'R', 'A client has a coherent partial response at any time without joining deltas'],
  S140: ['G12', 'adapters', 'R', 'The complete output comes as a last working update, with an ISO timestamp in UTC'],
  S141: ['G12', 'adapters', 'R', 'After it the task is completed, by one terminal event'],
  S142: ['G12', 'adapters', 'R', 'A run gets the message of the user, its dependencies and its toolsets'],
  S143: ['G12', 'adapters', 'R', 'Pattern of ADK: toA2A(agent) serves an agent without a change to it'],
  S144: ['G12', 'examples', 'N', 'The example of that pattern uses port 8003 unless another port is given'],
  S145: ['G12', 'adapters', 'R', 'ADK: intermediate text is working status, the last text is an artifact'],
  S146: ['G12', 'a2a', 'R', 'Our client reads status only, and status then artifact, and gets the same text from both'],
  S147: ['G12', 'adapters', 'R', 'A thin executor turns the Claude Agent SDK into A2A events'],
  S148: ['G12', 'adapters', 'R', 'It starts with working "Starting...", not final'],
  S149: ['G12', 'a2a', 'N', 'Throttle: one status each time the text passes a multiple of 200 characters'],
  S150: ['G12', 'a2a', 'N', 'The preview option shows the first 120 characters and "..."'],
  S151: ['G12', 'adapters', 'R', 'The full text is an artifact named response, with a uuid, marked as last chunk'],
  S152: ['G12', 'adapters', 'R', 'Then completed, final, with the full text in its message'],
  S153: ['G12', 'adapters', 'R', 'Adapters never block: they use the async client of their framework'],
  S154: ['G12', 'examples', 'N', 'The example call asks claude-sonnet-4-6 for at most 1024 tokens with one user message'],
  S155: ['G12', 'adapters', 'R', 'LangGraph in mode messages: pairs of chunk and metadata, token by token'],
  S156: ['G12', 'adapters', 'R', 'LangGraph in mode updates: one event per finished node, for graphs without messages'],
  S157: ['G12', 'adapters', 'R', 'It starts with working "Running graph..."'],
  S158: ['G12', 'adapters', 'E', 'Chunks without content are skipped'],
  S159: ['G12', 'adapters', 'N', 'The 200 and 120 character rules hold for LangGraph too'],
  S160: ['G12', 'adapters', 'R', 'Its artifact is named result, with a uuid and last chunk; then completed with the full text'],
  S161: ['G12', 'adapters', 'I', 'Four frameworks at least, each with its TypeScript form, pass one contract suite'],

  S162: ['G13', 'a2a', 'R', 'A working status acknowledges the request before the first model call'],
  S163: ['G13', 'adapters', 'R', 'A pipeline emits "Step: <name>" before each step runs'],
  S164: ['G13', 'examples', 'R', 'Long tasks keep the user informed by status messages'],

  S165: ['G14', 'a2a', 'R', 'Charts, data files and analyses are sent as artifact updates'],
  S166: ['G14', 'examples', 'N', 'Text to SQL gives sql_plan, query_summary, sql_query, query_results, in this order'],
  S167: ['G14', 'examples', 'R', 'sql_plan is a text part that holds JSON'],
  S168: ['G14', 'examples', 'R', 'query_summary is a text part in prose'],
  S169: ['G14', 'examples', 'R', 'sql_query is a data part with the URI of its artifact'],
  S170: ['G14', 'examples', 'R', 'query_results is a data part with the URI of a Parquet file, marked as last chunk'],
  S171: ['G14', 'examples', 'N', 'Its payload: type artifact, uri, resource_type parquet, metadata with row_count and columns'],
  S172: ['G14', 'a2a', 'R', 'Every artifact has its own uuid and a name'],
  S173: ['G14', 'a2a', 'I', 'Artifacts may come in chunks, which the client joins by append and last-chunk'],
  S174: ['G14', 'examples', 'R', 'There is a text-to-SQL agent with several artifacts over a real embedded database'],

  S175: ['G15', 'task', 'R', 'tasks/cancel stops the agent and ends the task with a canceled event'],
  S176: ['G15', 'task', 'R', 'The cancel is in the store before the running work is notified, so every replica can see it'],
  S177: ['G15', 'task', 'N', 'The final event of a cancel is canceled, with the text "Response stopped."'],
  S178: ['G15', 'task', 'R', 'An interrupted executor adds nothing: there is one final event'],
  S179: ['G15', 'task', 'R', 'A cancel takes effect at the next await, and is logged'],
  S180: ['G15', 'task', 'E', 'Work that never awaits is bounded by a deadline; a CLI agent is killed'],
  S181: ['G15', 'host', 'I', 'Cancel reaches the CLI as interrupt, tools as abort and MCP calls as notifications/cancelled'],
  S182: ['G15', 'task', 'I', 'Cancelling an ended task is refused as the protocol says; a second cancel has no effect'],

  S183: ['G16', 'task', 'R', 'A cancel may arrive at a replica that does not run the task'],
  S184: ['G16', 'task', 'N', 'At the latest a poll every 5,000 ms (configurable) finds the cancel in the store'],
  S185: ['G16', 'task', 'R', 'Watching for a cancel starts with the run'],
  S186: ['G16', 'task', 'R', 'Watching for a cancel stops with the run and leaves no timer'],
  S187: ['G16', 'task', 'R', 'The watcher ends once it has fired'],
  S188: ['G16', 'a2a', 'N', 'The stored state CANCELED maps to canceled (0.3) and TASK_STATE_CANCELED (1.0)'],
  S189: ['G16', 'task', 'E', 'A read error of the store ends neither the task nor the watch for a cancel'],
  S190: ['G16', 'task', 'I', 'The stream on the replica that ran the task still ends with its canceled event'],

  S191: ['G17', 'a2a', 'R', 'A stream that breaks at any event is resumed with tasks/resubscribe'],
  S192: ['G17', 'a2a', 'R', 'Executors need no code for that: the handler does it from the store'],
  S193: ['G17', 'task', 'R', 'A memory store for development, a persistent one for production'],
  S194: ['G17', 'a2a', 'R', 'If the store is lost, resubscribing returns task not found'],
  S195: ['G17', 'task', 'R', 'The store is an interface with a contract suite, so users can write their own'],
  S196: ['G17', 'task', 'I', 'A client that disconnects does not stop the agent'],
  S197: ['G17', 'task', 'I', 'Resuming loses no event and repeats none'],
  S198: ['G17', 'a2a', 'I', 'Resubscribing to an ended task gives its final state and does not hang'],

  S199: ['G18', 'adapters', 'N', 'A transient error is retried at most twice: three attempts'],
  S200: ['G18', 'adapters', 'N', 'Transient means status 429 or 500 and above'],
  S201: ['G18', 'adapters', 'N', 'The delays double from two seconds: 2 s, then 4 s'],
  S202: ['G18', 'adapters', 'R', 'After the last attempt the failed event is sent and the error is raised'],
  S203: ['G18', 'adapters', 'R', 'Other 4xx errors fail immediately, without another attempt'],
  S204: ['G18', 'adapters', 'R', 'A success ends the attempts'],
  S205: ['G18', 'adapters', 'R', 'A failure updates the response message and ends the task as failed'],
  S206: ['G18', 'adapters', 'E', 'An attempt that failed after some text leaves no repeated or partial text'],
  S207: ['G18', 'adapters', 'I', 'A cancel interrupts the delay between attempts'],

  S208: ['G19', 'trace', 'R', 'Time to first token is measured by a monotonic clock from stream start to first text'],
  S209: ['G19', 'trace', 'R', 'It is recorded once per stream'],
  S210: ['G19', 'trace', 'R', 'Connecting is measured separately, so a cold model and a slow MCP connection can be distinguished'],
  S211: ['G19', 'trace', 'N', 'The histogram resolves 0.1 to 10 s, the range of typical first tokens'],

  S212: ['G20', 'examples', 'R', 'The prompt is a patient record as JSON, given as a stream'],
  S213: ['G20', 'examples', 'R', 'A server briefing offers search_clinical_guidelines(query)'],
  S214: ['G20', 'examples', 'R', 'The tool embeds the query, searches a vector index and returns sources as XML'],
  S215: ['G20', 'agent-cli', 'N', 'With max_turns 4 a fifth turn never happens'],
  S216: ['G20', 'examples', 'R', 'One run makes several searches: treatment, interaction, screening'],
  S217: ['G20', 'examples', 'N', 'The sample patient has diabetes and hypertension; the sample query is on metformin at eGFR 45'],
  S218: ['G20', 'examples', 'R', 'Each citation of the briefing names a source that a search returned'],
  S219: ['G20', 'examples', 'R', 'The result has structured_output that is valid for the PatientBriefing schema'],
  S220: ['G20', 'examples', 'R', 'The app validates it and otherwise fails with a typed error'],
  S221: ['G20', 'examples', 'R', 'That error is a BriefingGenerationError with a code'],
  S222: ['G20', 'examples', 'R', 'All fourteen steps of the flow happen inside one query()'],

  S223: ['G21', 'examples', 'R', 'submit_distill_spec(args) stores the spec in a holder and returns content'],
  S224: ['G21', 'examples', 'R', 'After the run the spec is validated'],
  S225: ['G21', 'examples', 'E', 'A tool that is never called, or called with the wrong type, ends in an explicit message'],
  S226: ['G21', 'examples', 'R', 'A trace shows request, dispatch, tools/call, execution and response beside the loop of the user'],
  S227: ['G21', 'examples', 'N', 'create_ticket needs title, description and kind: bug, feature or task'],
  S228: ['G21', 'examples', 'N', 'It returns "Ticket \'Fix login bug\' created successfully (ID: TKT-42)"'],
  S229: ['G21', 'examples', 'R', 'A ticket waits for a person, and the call stays open until it is approved or rejected'],
  S230: ['G21', 'serve', 'R', 'Tools registered once are served to the CLI, over MCP and over A2A'],
  S231: ['G21', 'page', 'R', 'Tool calls also show in the message lane, for display'],

  S232: ['G22', 'mcp', 'R', 'A client dials MCP servers over Streamable HTTP'],
  S233: ['G22', 'adapters', 'R', 'Tools of MCP servers reach an agent as toolsets'],
  S234: ['G22', 'mcp', 'E', 'MCP connections are reused or warmed, because a cold one costs seconds'],
  S235: ['G22', 'mcp', 'R', 'stdio, HTTP and SSE servers are all dialled by our own client'],

  S236: ['G23', 'mcp', 'E', 'A measurement shows what buffering at both ends costs, and what streaming saves'],
  S237: ['G23', 'mcp', 'E', 'A server yields its first item before it has the last; peak memory is constant'],
  S238: ['G23', 'mcp', 'E', 'A client yields the first item before the last exists'],
  S239: ['G23', 'mcp', 'R', 'Each complete call has a streaming counterpart'],
  S240: ['G23', 'mcp', 'R', 'Streaming is the core, and the old interface behaves as before'],
  S241: ['G23', 'mcp', 'R', 'streamListTools() is read with for await'],
  S242: ['G23', 'mcp', 'R', 'listTools() is that stream collected, with no nextCursor'],
  S243: ['G23', 'mcp', 'R', 'Internally every list is an async iterator'],
  S244: ['G23', 'mcp', 'R', 'gRPC passes items through; JSON-RPC hides its cursors'],
  S245: ['G23', 'mcp', 'R', 'The JSON-RPC wire is unchanged, byte for byte'],
  S246: ['G23', 'mcp', 'R', 'One contract suite passes over stdio, HTTP, SSE, memory and gRPC'],
  S247: ['G23', 'mcp', 'R', 'One program runs unchanged over all five'],
  S248: ['G23', 'mcp', 'R', 'A new streaming transport plugs in without a change to the library'],
  S249: ['G23', 'mcp', 'R', 'Only the parts that must know cursors, or streaming, know them'],
  S250: ['G23', 'mcp', 'I', 'Resources, resource templates and prompts stream like tools'],
  S251: ['G23', 'mcp', 'I', 'A slow consumer slows the producer, end to end'],
  S252: ['G23', 'mcp', 'I', 'Breaking out early stops the producer: gRPC is cancelled, no further page is fetched'],

  S253: ['G24', 'mcp', 'R', 'Over gRPC, items are streamed natively and converted one by one'],
  S254: ['G24', 'mcp', 'R', 'The wire is HTTP/2, against a real gRPC server'],
  S255: ['G24', 'mcp', 'R', 'The streaming calls of gRPC have no cursor'],
  S256: ['G24', 'mcp', 'R', 'Over JSON-RPC and SSE, cursor pages are requested one by one and their items yielded'],
  S257: ['G24', 'mcp', 'R', 'The list starts without a cursor and ends when nextCursor is absent'],
  S258: ['G24', 'mcp', 'E', 'The items of a page are yielded before the next page is requested'],
  S259: ['G24', 'mcp', 'E', 'Repeated cursors, endless ones, empty pages and the empty cursor are handled'],
  S260: ['G24', 'mcp', 'R', 'gRPC adds no buffering, and JSON-RPC pagination works as before; both are measured'],

  S261: ['G25', 'mcp', 'R', 'A gRPC client lists the tools of a JSON-RPC server, page by page'],
  S262: ['G25', 'mcp', 'E', 'The client has page one before page two is requested; the last page ends the stream'],
  S263: ['G25', 'mcp', 'R', 'Only the bridge knows both protocols'],
  S264: ['G25', 'mcp', 'R', 'A program that does not mix protocols need not load the bridge'],
  S265: ['G25', 'mcp', 'I', 'The reverse works too: a JSON-RPC client pages through a gRPC server'],
  S266: ['G25', 'mcp', 'I', 'tools/call and errors pass the bridge with their codes'],

  S267: ['G26', 'trace', 'R', 'Streams can be recorded, inspected and checked against the contract'],
  S268: ['G26', 'trace', 'R', 'Streaming behaviour can be evaluated, with local reports and an OTLP export'],
  S269: ['G26', 'docs', 'I', 'The docs link to async RAG, custom tools and MCP'],
  S270: ['G26', 'docs', 'R', 'The docs teach the mental models and correct the misconceptions'],
} as const;

/** The id of a row. A citation of one that does not exist is a type error. */
export type RequirementId = keyof typeof ROWS;

/**
 * Rows that name a product or a language that no test runs. Tests prove the contract that it relies
 * on.
 */
const BY_CONTRACT: Partial<Record<RequirementId, string>> = {
  S8: 'recorded conversations are replayed; no implementation in a second language runs them',
  S214: 'the vector index is local, behind the interface that a Qdrant store has; no Qdrant runs',
  S268: 'traces have the form of the official OTLP serializer; no Langfuse receives them',
};

export interface Requirement {
  readonly id: RequirementId;
  readonly group: Group;
  readonly part: Part;
  readonly kind: Kind;
  readonly text: string;
  /** Set if tests prove the contract alone; says which product does not run. */
  readonly byContract?: string;
}

/** Every row, in order. */
export const REQUIREMENTS: readonly Requirement[] = Object.entries(
  ROWS satisfies Record<string, readonly [Group, Part, Kind, string]>,
).map(([id, [group, part, kind, text]]) => ({
  id: id as RequirementId,
  group,
  part,
  kind,
  text,
  ...(Object.hasOwn(BY_CONTRACT, id) && { byContract: BY_CONTRACT[id as RequirementId] }),
}));

/** Whether a string, from a report or a file, is the id of a row. */
export function isRequirementId(id: string): id is RequirementId {
  return Object.hasOwn(ROWS, id);
}
