import type { Finding, Severity } from './types.ts';

export interface Rule {
  readonly severity: Severity;
  /** What has to hold. */
  readonly holds: string;
  readonly fix: string;
}

/** Every rule that `doctor` knows. docs/reference/trace-format.md lists them; a test compares the two. */
export const RULES = {
  // the pipe between a host and its CLI
  'tool-answer-lost': {
    severity: 'error',
    holds: 'Every tools/call of the CLI gets its answer',
    fix: 'keep stdin open until the run is idle, and write the answer of every handler; the model goes on without it and may invent one',
  },
  'request-unanswered': {
    severity: 'error',
    holds: 'Every control request gets exactly one answer',
    fix: 'answer it, with subtype error if there is nothing to say: whoever asked waits, some for ever',
  },
  'notification-unacknowledged': {
    severity: 'error',
    holds: 'An mcp_message that carries a notification is acknowledged, too',
    fix: 'answer its control request with an empty mcp_response; the CLI counts the server as failed otherwise',
  },
  'answer-to-nothing': {
    severity: 'warning',
    holds: 'An answer bears the request_id of a request that waits',
    fix: 'take request_id from the request, and answer once; both sides drop such an answer without a word',
  },
  'request-id-reused': {
    severity: 'error',
    holds: 'A request_id is unique among those that wait',
    fix: 'make a new id per request; the second one is dropped',
  },
  'flat-answer': {
    severity: 'error',
    holds: 'request_id stands inside of response',
    fix: 'write {"type":"control_response","response":{"subtype":"success","request_id":…,"response":…}}; the flat form is dropped without a word',
  },
  'answer-not-wrapped': {
    severity: 'error',
    holds: 'The answer to an mcp_message is wrapped in mcp_response',
    fix: 'write response.response.mcp_response = the JSON-RPC answer; bare, the turn never starts',
  },
  'rpc-id-mismatch': {
    severity: 'error',
    holds: 'A JSON-RPC answer bears the id of its request, by value and type',
    fix: 'copy the id; 0 and "" are ids, too',
  },
  'permission-shape': {
    severity: 'error',
    holds: 'A permission is {behavior: "allow"} or {behavior: "deny", message}',
    fix: 'answer can_use_tool in one of the two shapes; the CLI asks again for ever otherwise',
  },
  'input-closed-early': {
    severity: 'error',
    holds: 'Stdin stays open while the CLI may still ask',
    fix: 'send the prompt as a stream and close stdin after the result, when nothing is pending',
  },
  'server-not-listed': {
    severity: 'error',
    holds: 'Every declared in-process server is connected',
    fix: 'serve its handshake before stdin closes; the model is told that the tools do not exist',
  },
  'turn-without-result': {
    severity: 'error',
    holds: 'Every turn ends with a result',
    fix: 'see how the CLI ended (exit code, stderr); treat a missing result as a failure, not as an empty answer',
  },
  'result-is-error': {
    severity: 'info',
    holds: 'A result with is_error is a failure, whatever its subtype',
    fix: 'test is_error, not the subtype: an API error comes as success',
  },
  'exit-code': {
    severity: 'warning',
    holds: 'The exit code is 0 after a good last result and 1 after an error',
    fix: 'see stderr: something failed behind the result',
  },
  'line-not-protocol': {
    severity: 'warning',
    holds: 'Every line is one JSON object',
    fix: 'print to stderr; on stdout, a line null ends a session of the official SDK, and on stdin any such line ends the CLI',
  },
  'message-shape': {
    severity: 'error',
    holds: 'A user message has message.role "user"',
    fix: 'send {"type":"user","message":{"role":"user","content":…}}; the CLI exits on any other role',
  },
  stalled: {
    severity: 'warning',
    holds: 'Somebody says something while something is awaited',
    fix: 'see what the host was holding, in the line',
  },

  // a file
  'file-damaged': {
    severity: 'warning',
    holds: 'Every line of a file is of its format',
    fix: 'a last line that is cut off is the trace of a killed process; anything else was edited',
  },

  // the log of a task
  'log-unlawful': {
    severity: 'error',
    holds: 'Entries follow the laws of the log: numbers without gap, calls closed once, one end',
    fix: 'write through a TaskLog; it refuses such an entry',
  },
  'log-unfinished': {
    severity: 'warning',
    holds: 'A task ends in a final state',
    fix: 'it may still run or wait for a person; a dead run is ended by the next runner on this log',
  },

  // the A2A stream
  'stream-media-type': {
    severity: 'error',
    holds: 'A stream is text/event-stream',
    fix: 'answer the streaming method with SSE, also for errors after the headers',
  },
  'stream-first-task': {
    severity: 'error',
    holds: 'The first event is the Task (or the one Message)',
    fix: 'publish the task before its first update',
  },
  'stream-first-submitted': {
    severity: 'warning',
    holds: 'The Task of the first event is submitted',
    fix: 'send it before the agent starts; it is legal without, but the client learns the task id late',
  },
  'stream-order': {
    severity: 'error',
    holds: 'After the Task come updates of the same task; no second Task, no Message',
    fix: 'send status-update and artifact-update events; say things in status.message',
  },
  'stream-no-final': {
    severity: 'error',
    holds: 'A stream never closes without a final event',
    fix: 'end it as failed when the agent throws, times out or the server stops; clients must resubscribe now',
  },
  'stream-after-final': {
    severity: 'error',
    holds: 'There is exactly one final event, and nothing behind it',
    fix: 'send what is left before the final status',
  },
  'stream-final-flag': {
    severity: 'error',
    holds: 'In 0.3, final is true on the last status and on no other',
    fix: 'set final with the terminal state, not on a working status',
  },
  'stream-state': {
    severity: 'error',
    holds: 'A status has a state that the protocol knows',
    fix: 'use the words of the protocol version that was asked for',
  },
  'stream-rpc': {
    severity: 'error',
    holds: 'Every event is one JSON-RPC 2.0 response on one data line',
    fix: 'wrap it: {"jsonrpc":"2.0","id":…,"result":…}',
  },
  'stream-rpc-error': {
    severity: 'info',
    holds: 'A stream that ends with a JSON-RPC error says why',
    fix: 'see its code and message',
  },
  'stream-rpc-id': {
    severity: 'error',
    holds: 'Every event bears the id of the request',
    fix: 'copy the id of the request; clients match by it',
  },
  'stream-ids': {
    severity: 'error',
    holds: 'taskId and contextId stay the same; SSE ids are never repeated',
    fix: 'mint them once per task; a client resumes by the SSE id',
  },
  'stream-artifact': {
    severity: 'error',
    holds: 'append goes to an artifact that was begun and not finished',
    fix: 'send the first chunk without append, and lastChunk only on the last',
  },
  'stream-headers': {
    severity: 'warning',
    holds: 'Headers tell proxies not to buffer',
    fix: 'send cache-control: no-cache and x-accel-buffering: no',
  },
  'stream-buffered': {
    severity: 'error',
    holds: 'Events arrive when they happen',
    fix: 'flush after each event; turn off buffering and compression in what stands in front of the server',
  },
  'stream-slow-start': {
    severity: 'warning',
    holds: 'The first event comes at once',
    fix: 'send the submitted Task before any work; a proxy may give up on a silent stream',
  },
  'stream-silent': {
    severity: 'warning',
    holds: 'A silent stream sends a heartbeat comment',
    fix: 'write a comment line every 15 s; proxies cut idle connections after 30 to 60 s',
  },

  // a running server
  'server-card': {
    severity: 'error',
    holds: 'The agent card is at /.well-known/agent-card.json',
    fix: 'serve it there, without authentication, as application/json',
  },
  'server-streaming': {
    severity: 'error',
    holds: 'The card declares streaming',
    fix: 'set capabilities.streaming',
  },
  'server-not-found': {
    severity: 'error',
    holds: 'An unknown task is the error -32001',
    fix: 'answer tasks/get and resubscribe of an unknown id with TaskNotFound',
  },
  'server-get': {
    severity: 'error',
    holds: 'The task that is read afterwards has the state of the final event',
    fix: 'store an event before it is sent',
  },
  'server-resubscribe': {
    severity: 'error',
    holds: 'A client whose connection was cut can come back and gets the end',
    fix: 'serve tasks/resubscribe (SubscribeToTask) from a log, not from the memory of one connection',
  },
  'server-resume-gap': {
    severity: 'error',
    holds: 'Who comes back with Last-Event-ID gets what came after it, once',
    fix: 'number the events in the log and replay from there',
  },
} as const;

export type RuleId = keyof typeof RULES;

export function finding(rule: RuleId, line: number, what: string, severity?: Severity): Finding {
  const { severity: usual, fix }: Rule = RULES[rule];
  return { rule, severity: severity ?? usual, line, what, fix };
}
