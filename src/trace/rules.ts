import type { Finding, Severity } from './types.ts';

/** One rule of the doctor. */
export interface Rule {
  readonly severity: Severity;
  /** What the rule requires. */
  readonly holds: string;
  readonly fix: string;
}

/** Every rule of `doctor`. docs/reference/trace-format.md lists them; a test compares the two. */
export const RULES = {
  // the pipe between a host and its CLI
  'tool-answer-lost': {
    severity: 'error',
    holds: 'Every tools/call of the CLI gets its response',
    fix: 'keep stdin open until the run is idle, and write the response of every handler; without it the model continues and may invent a result',
  },
  'request-unanswered': {
    severity: 'error',
    holds: 'Every control request gets exactly one response',
    fix: 'respond to it, with subtype error if it cannot be handled; the sender waits, some without a limit',
  },
  'notification-unacknowledged': {
    severity: 'error',
    holds: 'An mcp_message that carries a notification gets a response, too',
    fix: 'respond to its control request with an empty mcp_response; otherwise the CLI counts the server as failed',
  },
  'answer-to-nothing': {
    severity: 'warning',
    holds: 'A response has the request_id of a pending request',
    fix: 'copy request_id from the request, and respond once; both sides drop such a response without an error',
  },
  'request-id-reused': {
    severity: 'error',
    holds: 'A request_id is unique among the pending requests',
    fix: 'create a new id per request; the second request is dropped',
  },
  'flat-answer': {
    severity: 'error',
    holds: 'request_id is inside response',
    fix: 'write {"type":"control_response","response":{"subtype":"success","request_id":…,"response":…}}; the flat form is dropped without an error',
  },
  'answer-not-wrapped': {
    severity: 'error',
    holds: 'The response to an mcp_message is wrapped in mcp_response',
    fix: 'write response.response.mcp_response = the JSON-RPC response; without the wrapper the turn never starts',
  },
  'rpc-id-mismatch': {
    severity: 'error',
    holds: 'A JSON-RPC response has the id of its request, with the same value and type',
    fix: 'copy the id; 0 and "" are valid ids',
  },
  'permission-shape': {
    severity: 'error',
    holds: 'A permission is {behavior: "allow"} or {behavior: "deny", message}',
    fix: 'respond to can_use_tool in one of the two shapes; otherwise the CLI repeats the request without a limit',
  },
  'input-closed-early': {
    severity: 'error',
    holds: 'Stdin stays open while the CLI may still send requests',
    fix: 'send the prompt as a stream and close stdin after the result, when nothing is pending',
  },
  'server-not-listed': {
    severity: 'error',
    holds: 'Every declared in-process server is connected',
    fix: 'handle its handshake before stdin closes; otherwise the tools do not exist for the model',
  },
  'turn-without-result': {
    severity: 'error',
    holds: 'Every turn ends with a result',
    fix: 'check how the CLI exited (exit code, stderr); treat a missing result as a failure, not as an empty text',
  },
  'result-is-error': {
    severity: 'info',
    holds: 'A result with is_error is a failure, whatever its subtype',
    fix: 'test is_error, not the subtype: an API error has the subtype success',
  },
  'exit-code': {
    severity: 'warning',
    holds: 'The exit code is 0 after a successful last result and 1 after an error',
    fix: 'read stderr: something failed after the result',
  },
  'line-not-protocol': {
    severity: 'warning',
    holds: 'Every line is one JSON object',
    fix: 'print to stderr; a line null on stdout ends a session of the official SDK, and an invalid line on stdin ends the CLI',
  },
  'message-shape': {
    severity: 'error',
    holds: 'A user message has message.role "user"',
    fix: 'send {"type":"user","message":{"role":"user","content":…}}; the CLI exits on any other role',
  },
  stalled: {
    severity: 'warning',
    holds: 'The CLI or the host sends a frame while a response is pending',
    fix: 'the line lists what the host was waiting for',
  },

  // a file
  'file-damaged': {
    severity: 'warning',
    holds: 'Every line of a file has its format',
    fix: 'an incomplete last line is normal for a killed process; any other invalid line was edited',
  },

  // the log of a task
  'log-unlawful': {
    severity: 'error',
    holds: 'Entries follow the laws of the log: numbers without gaps, calls closed once, one end',
    fix: 'write through a TaskLog; it refuses such an entry',
  },
  'log-unfinished': {
    severity: 'warning',
    holds: 'A task ends in a final state',
    fix: 'it may still run or wait for a person; the next runner on this log ends a run whose process is gone',
  },

  // the A2A stream
  'stream-media-type': {
    severity: 'error',
    holds: 'A stream is text/event-stream',
    fix: 'respond to the streaming method with SSE, also for errors after the headers',
  },
  'stream-first-task': {
    severity: 'error',
    holds: 'The first event is the Task (or the one Message)',
    fix: 'publish the task before its first update',
  },
  'stream-first-submitted': {
    severity: 'warning',
    holds: 'The Task of the first event is submitted',
    fix: 'send it before the agent starts; this is optional, but without it the client gets the task id late',
  },
  'stream-order': {
    severity: 'error',
    holds: 'After the Task, a stream has updates of the same task; no second Task, no Message',
    fix: 'send status-update and artifact-update events; put text into status.message',
  },
  'stream-no-final': {
    severity: 'error',
    holds: 'A stream never closes without a final event',
    fix: 'end it as failed when the agent throws, times out or the server stops; otherwise clients must resubscribe',
  },
  'stream-after-final': {
    severity: 'error',
    holds: 'A stream has exactly one final event, and it is the last event',
    fix: 'send all other events before the final status',
  },
  'stream-final-flag': {
    severity: 'error',
    holds: 'In 0.3, final is true on the last status and on no other',
    fix: 'set final with the terminal state, not on a working status',
  },
  'stream-state': {
    severity: 'error',
    holds: 'A status has a state that the protocol defines',
    fix: 'use the state names of the requested protocol version',
  },
  'stream-rpc': {
    severity: 'error',
    holds: 'Every event is one JSON-RPC 2.0 response on one data line',
    fix: 'wrap it: {"jsonrpc":"2.0","id":…,"result":…}',
  },
  'stream-rpc-error': {
    severity: 'info',
    holds: 'A stream that ends with a JSON-RPC error gives the reason',
    fix: 'read its code and message',
  },
  'stream-rpc-id': {
    severity: 'error',
    holds: 'Every event has the id of the request',
    fix: 'copy the id of the request; clients match by it',
  },
  'stream-ids': {
    severity: 'error',
    holds: 'taskId and contextId stay the same; SSE ids are never repeated',
    fix: 'create them once per task; a client resumes by the SSE id',
  },
  'stream-artifact': {
    severity: 'error',
    holds: 'append refers to an artifact that was started and not finished',
    fix: 'send the first chunk without append, and lastChunk only on the last',
  },
  'stream-headers': {
    severity: 'warning',
    holds: 'Headers prevent buffering in proxies',
    fix: 'send cache-control: no-cache and x-accel-buffering: no',
  },
  'stream-buffered': {
    severity: 'error',
    holds: 'Events arrive when they happen',
    fix: 'flush after each event; turn off buffering and compression in proxies before the server',
  },
  'stream-slow-start': {
    severity: 'warning',
    holds: 'The first event is sent immediately',
    fix: 'send the submitted Task before any work; a proxy may close a silent stream',
  },
  'stream-silent': {
    severity: 'warning',
    holds: 'A silent stream sends a heartbeat comment',
    fix: 'write a comment line every 15 s; proxies close idle connections after 30 to 60 s',
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
    holds: 'An unknown task gives the error -32001',
    fix: 'respond to tasks/get and resubscribe of an unknown id with TaskNotFound',
  },
  'server-get': {
    severity: 'error',
    holds: 'After the stream, tasks/get returns the state of the final event',
    fix: 'store an event before it is sent',
  },
  'server-resubscribe': {
    severity: 'error',
    holds: 'A client whose connection broke can resubscribe and gets the end',
    fix: 'serve tasks/resubscribe (SubscribeToTask) from a log, not from the memory of one connection',
  },
  'server-resume-gap': {
    severity: 'error',
    holds: 'A client that resumes with Last-Event-ID gets the events after it, once',
    fix: 'number the events in the log and replay from there',
  },
} as const;

/** The name of a rule. */
export type RuleId = keyof typeof RULES;

/** Collects the findings of a checker until they are taken. */
export class Findings {
  readonly #found: Finding[] = [];

  add(...args: Parameters<typeof finding>): void {
    this.#found.push(finding(...args));
  }

  take(): Finding[] {
    return this.#found.splice(0);
  }
}

/** Creates a finding of a rule, with the severity of the rule by default. */
export function finding(rule: RuleId, line: number, what: string, severity?: Severity): Finding {
  const { severity: usual, fix }: Rule = RULES[rule];
  return { rule, severity: severity ?? usual, line, what, fix };
}
