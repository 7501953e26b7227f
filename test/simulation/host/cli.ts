import { asObject, type JsonObject } from '../../../src/json.ts';
import { InvalidLine, JsonlDecoder } from '../../../src/wire/jsonl.ts';
import type { World } from '../world.ts';
import type { Child } from './child.ts';
import type { HostLedger } from './host-ledger.ts';
import type { CliAction, HostPlan, ToolPlan } from './plan.ts';

/** A scripted agent CLI on its own machine. */
export class ScriptedCli {
  readonly #world: World;
  readonly #plan: HostPlan;
  readonly #child: Child;
  readonly #ledger: HostLedger;
  readonly #decoder = new JsonlDecoder();
  readonly #queue: string[] = [];
  readonly #waiting = new Map<string, () => void>();
  readonly #background: Promise<void>[] = [];
  #lines = 0;
  #ids = 0;
  #turn = 0;
  #busy = false;
  #interrupted = false;
  #ended = false;

  constructor(world: World, plan: HostPlan, child: Child, ledger: HostLedger) {
    this.#world = world;
    this.#plan = plan;
    this.#child = child;
    this.#ledger = ledger;
    child.ignoresTerm = plan.cli.stays === 'all';
    child.onInput = (chunk) => {
      for (const frame of this.#decoder.decode(chunk))
        if (frame instanceof InvalidLine)
          world.broken('the host writes whole lines', String(frame.error));
        else this.#receive(frame);
    };
    child.onInputEnd = () => this.#inputEnds();
  }

  #receive(frame: JsonObject): void {
    switch (frame['type']) {
      case 'control_request':
        return this.#request(String(frame['request_id']), asObject(frame['request']));
      case 'control_response': {
        const response = asObject(frame['response']);
        const id = String(response['request_id']);
        this.#ledger.answeredCli(id, response);
        return this.#waiting.get(id)?.();
      }
      case 'user':
        this.#queue.push(String(frame['uuid']));
        if (!this.#busy) this.#run().catch((error: unknown) => this.#failed(error));
        return;
      default:
    }
  }

  #failed(error: unknown): void {
    this.#world.broken('the simulation itself works', String((error as Error).stack));
  }

  #request(id: string, request: JsonObject): void {
    const { initMs, ignoresInterrupt } = this.#plan.cli;
    const respond = (response: JsonObject): void =>
      this.#say({
        type: 'control_response',
        response: { subtype: 'success', request_id: id, response },
      });
    switch (request['subtype']) {
      case 'initialize':
        this.#later(initMs, () =>
          respond({ sdk_mcp_manifests_parked: { app: 'parked' }, commands: [] }),
        );
        return;
      case 'interrupt':
        if (ignoresInterrupt) return;
        respond({});
        this.#interrupted = true;
        for (const done of this.#waiting.values()) done();
        return;
      default:
        this.#later(20, () => respond({ mcpServers: [{ name: 'app', status: 'connected' }] }));
    }
  }

  async #run(): Promise<void> {
    this.#busy = true;
    for (let uuid = this.#queue.shift(); uuid !== undefined; uuid = this.#queue.shift()) {
      const actions = this.#plan.turns[this.#turn++ % this.#plan.turns.length] ?? [];
      const named = this.#plan.cli.namesTurns ? { user_message_uuids: [uuid] } : {};
      this.#interrupted = false;
      const server = { name: 'app', status: 'connected' };
      this.#say({ ...this.#message('system', 'init'), mcp_servers: [server], ...named });
      for (const action of actions) if (!this.#interrupted) await this.#act(action);
      const isError = this.#interrupted || this.#plan.cli.failsTurns;
      this.#say({
        ...this.#message('result', isError ? 'error_during_execution' : 'success'),
        is_error: isError,
        ...named,
      });
      this.#ledger.results++;
      await Promise.all(this.#background.splice(0));
      await this.#pause(1);
    }
    this.#busy = false;
    this.#say({ ...this.#message('system', 'session_state_changed'), state: 'idle' });
    if (this.#ended) this.#exit();
  }

  #message(type: string, subtype: string): JsonObject {
    return { type, subtype, session_id: 'simulated' };
  }

  async #act(action: CliAction): Promise<void> {
    switch (action.do) {
      case 'say':
        for (let each = 0; each < action.messages; each++) {
          const content = [{ type: 'text', text: 'word' }];
          this.#say({
            type: 'assistant',
            message: { role: 'assistant', content },
            session_id: 'simulated',
          });
        }
        return;
      case 'pause':
        return this.#pause(action.ms);
      case 'call':
        {
          const calls = action.tools.map((tool) => this.#answered(this.#call(tool)));
          if (action.background) this.#background.push(...calls);
          else await Promise.all(calls);
        }
        return;
      case 'withdraw': {
        const id = this.#call(action.tool);
        await this.#pause(action.ms);
        this.#withdraw(id);
        return;
      }
      default: {
        const request = {
          subtype: 'can_use_tool',
          tool_name: 'Write',
          input: { ms: action.ms },
          tool_use_id: `p${this.#ids}`,
        };
        await this.#answered(this.#ask(request));
      }
    }
  }

  #call({ act, ms }: ToolPlan): string {
    const n = this.#ids + 1;
    const params = { name: 'run', arguments: { n, act, ms } };
    const message = { jsonrpc: '2.0', id: n, method: 'tools/call', params };
    return this.#ask({ subtype: 'mcp_message', server_name: 'app', message }, n);
  }

  #ask(request: JsonObject, n?: number): string {
    const id = `cli_${++this.#ids}`;
    this.#ledger.asked(id, n);
    this.#say({ type: 'control_request', request_id: id, request }, id);
    return id;
  }

  /** Resolves with the answer, an interrupt, or the end of the input. */
  async #answered(id: string): Promise<void> {
    if (!this.#ended && !this.#interrupted && !this.#ledger.hasAnswer(id))
      await new Promise<void>((resolve) => this.#waiting.set(id, resolve));
    this.#waiting.delete(id);
    if (this.#interrupted) this.#withdraw(id);
  }

  #withdraw(id: string): void {
    if (this.#ledger.hasAnswer(id)) return;
    this.#ledger.withdrawn(id);
    this.#say({ type: 'control_cancel_request', request_id: id });
  }

  #inputEnds(): void {
    this.#ended = true;
    this.#ledger.inputEnded();
    for (const done of this.#waiting.values()) done();
    if (!this.#busy) this.#exit();
  }

  #exit(): void {
    if (this.#plan.cli.stays !== 'no') return;
    const code = this.#plan.cli.failsTurns ? 1 : 0;
    this.#later(this.#plan.cli.exitMs, () => this.#child.exit(code));
  }

  /** Writes a line; the plan may damage it. */
  #say(frame: JsonObject, id?: string): void {
    if (this.#child.hasExited) return;
    const nth = ++this.#lines;
    const fault = this.#plan.faults.find((each) => 'nth' in each && each.nth === nth)?.do;
    const uuid = `line-${nth}`;
    const line = `${JSON.stringify('session_id' in frame ? { ...frame, uuid } : frame)}\n`;
    if (fault) this.#world.count(fault);
    if (fault === 'truncate' || fault === 'die in line') {
      const half = line.slice(0, line.length >> 1);
      this.#child.say(fault === 'truncate' ? `${half}\n` : half);
      if (fault === 'die in line') this.#child.exit(null, 'SIGSEGV');
      return;
    }
    if (fault === 'noise') this.#child.say('DEBUG: not JSON\n');
    const times = fault === 'duplicate' ? 2 : 1;
    this.#child.say(line.repeat(times));
    if (id !== undefined) this.#ledger.delivered(id, times);
    if ('session_id' in frame) this.#ledger.wrote(uuid, times);
  }

  #later(ms: number, run: () => void): void {
    this.#world.after(ms, this.#child.machine, 'cli', run);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#later(ms, resolve));
  }
}
