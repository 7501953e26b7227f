// A stand-in for an agent CLI. It writes its arguments, its environment and every line of its input
// to the file RECORD_FILE, accepts every control request, and gives each prompt one result. The
// requests of RECORD_REQUESTS, a JSON array, go to the host before the first result.
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const {
  RECORD_FILE,
  RECORD_REQUESTS = '[]',
  RECORD_END = 'success',
  RECORD_REFUSE = '',
  RECORD_RESPONSE,
  ...env
} = process.env;
const record = (entry) => appendFileSync(RECORD_FILE, `${JSON.stringify(entry)}\n`);
const say = (frame) => process.stdout.write(`${JSON.stringify(frame)}\n`);
const session = { session_id: '11111111-1111-4111-8111-111111111111', uuid: 'u-1' };

record({ argv: process.argv.slice(2), env, cwd: process.cwd(), execArgv: process.execArgv });

const open = new Set();
let isAsked = false;
let prompts = 0;

function ask() {
  isAsked = true;
  for (const [index, request] of JSON.parse(RECORD_REQUESTS).entries()) {
    const { request_id = `cli-${index}`, mayStayOpen, ...rest } = request;
    open.add(request_id);
    // Some requests stay without a response on purpose.
    if (mayStayOpen) setTimeout(() => void (open.delete(request_id) && finish()), 300);
    say({ type: 'control_request', request_id, request: rest });
  }
}

function finish() {
  if (prompts === 0 || open.size > 0) return;
  prompts -= 1;
  if (RECORD_END === 'exit') process.exit(7);
  if (RECORD_END === 'hang') return;
  say({
    type: 'assistant',
    ...session,
    parent_tool_use_id: null,
    message: { id: 'm1', role: 'assistant', content: [{ type: 'text', text: 'hello' }] },
  });
  const failed = RECORD_END === 'error';
  if (failed) process.exitCode = 1;
  say({
    type: 'result',
    ...session,
    subtype: failed ? 'error_max_turns' : 'success',
    is_error: failed,
    num_turns: 1,
    ...(failed ? { errors: ['too many turns'] } : { result: 'hello' }),
    total_cost_usd: 0,
    usage: {},
    modelUsage: {},
    permission_denials: [],
  });
  say({
    type: 'system',
    subtype: 'session_state_changed',
    ...session,
    state: 'idle',
    sdk_host_only: true,
  });
  finish();
}

/** A response with every member that a method of the host reads, unless the case gives one. */
const ALL = {
  commands: [{ name: 'c' }],
  models: [{ value: 'm' }],
  agents: [{ name: 'a' }],
  account: { email: 'e' },
  hook_on_failure_supported: true,
  mcpServers: [{ name: 's', status: 'connected' }],
  backgrounded: true,
  canRewind: true,
  cancelled: true,
  contents: 'text',
  absPath: '/x',
  added: [],
  removed: [],
  errors: {},
  warning: 'w',
};
const RESPONSES = {
  interrupt: { still_queued: ['m-1'] },
};
const responseTo = (subtype) =>
  RECORD_RESPONSE && subtype !== 'initialize'
    ? JSON.parse(RECORD_RESPONSE)
    : (RESPONSES[subtype] ?? ALL);

for await (const line of createInterface({ input: process.stdin })) {
  const frame = JSON.parse(line);
  record({ line: frame });
  if (frame.type === 'control_request') {
    const { request_id, request } = frame;
    const response = RECORD_REFUSE.split(',').includes(request.subtype)
      ? { subtype: 'error', request_id, error: 'no', error_code: 'refused' }
      : { subtype: 'success', request_id, response: responseTo(request.subtype) };
    say({ type: 'control_response', response });
  } else if (frame.type === 'control_response') {
    open.delete(frame.response.request_id);
    finish();
  } else if (frame.type === 'user') {
    prompts += 1;
    say({ type: 'system', subtype: 'init', ...session, tools: [], mcp_servers: [] });
    if (!isAsked) ask();
    finish();
  }
}
record({ ended: true });
