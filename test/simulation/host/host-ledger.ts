import type { Frame } from '../../../src/event/types.ts';
import { asObject, asObjects, type JsonObject } from '../../../src/json.ts';
import type { World } from '../world.ts';

interface Call {
  /** The number of a tool call; a question about a permission has none. */
  readonly n: number | undefined;
  /** How often its line was written whole. */
  delivered: number;
  withdrawn: boolean;
  /** Responses that the host wrote, those that it reported as lost, and those that arrived. */
  written: number;
  lost: number;
  arrived: number;
  writtenAt: number;
}

interface ToolRun {
  /** Undefined for a question about a permission. */
  readonly n: number | undefined;
  readonly signal: AbortSignal;
}

/** What the CLI asked and wrote, and what the host did with it. */
export class HostLedger {
  readonly #world: World;
  readonly #calls = new Map<string, Call>();
  readonly #runs = new Map<number, number>();
  readonly active: Set<ToolRun> = new Set();
  /** The messages of the CLI in the order of their lines. */
  readonly lines: string[] = [];
  results = 0;
  onInputEnded: () => void = () => {};

  constructor(world: World) {
    this.#world = world;
  }

  // ——— the side of the CLI

  asked(id: string, n: number | undefined): void {
    const none = { delivered: 0, withdrawn: false, written: 0, lost: 0, arrived: 0, writtenAt: 0 };
    this.#calls.set(id, { n, ...none });
  }

  delivered(id: string, times: number): void {
    const call = this.#calls.get(id);
    if (call) call.delivered += times;
  }

  withdrawn(id: string): void {
    const call = this.#calls.get(id);
    if (call) call.withdrawn = true;
  }

  hasAnswer(id: string): boolean {
    return (this.#calls.get(id)?.arrived ?? 0) > 0;
  }

  answeredCli(id: string, response: JsonObject): void {
    const call = this.#calls.get(id);
    if (!call) return this.#world.broken('an answer has a question', id);
    if (++call.arrived > Math.max(1, call.delivered))
      this.#world.broken('a call is answered once', `${id}: ${call.arrived} times`);
    const result = asObject(asObject(asObject(response['response'])['mcp_response'])['result']);
    const [text] = asObjects(result['content']);
    if (call.n === undefined || !text || result['isError'] === true) return;
    if (text['text'] !== `result ${call.n}`)
      this.#world.broken('an answer belongs to its call', `${id}: ${String(text['text'])}`);
  }

  wrote(uuid: string, times: number): void {
    for (let each = 0; each < times; each++) this.lines.push(uuid);
  }

  inputEnded(): void {
    this.onInputEnded();
  }

  // ——— the side of the host

  tap(frame: Frame): void {
    const { lane, direction, data } = frame;
    const { type, response } = asObject(data);
    if (lane !== 'control' || direction !== 'out' || type !== 'control_response') return;
    const id = String(asObject(response)['request_id']);
    const call = this.#calls.get(id);
    if (!call) return this.#world.broken('an answer has a question', id);
    if (frame.lost) call.lost++;
    else {
      call.written++;
      call.writtenAt = this.#world.now;
    }
    if (call.written > call.delivered || call.lost > call.delivered)
      this.#world.broken('a call is answered once', `${id}: ${call.written}, lost ${call.lost}`);
  }

  toolBegins(n: number, signal: AbortSignal): ToolRun {
    const runs = (this.#runs.get(n) ?? 0) + 1;
    this.#runs.set(n, runs);
    const call = [...this.#calls.values()].find((each) => each.n === n);
    if (!call || runs > call.delivered)
      this.#world.broken('a tool runs once for a call', `${n}: ${runs} times`);
    for (const other of this.active)
      if (other.n === n) this.#world.broken('a call runs once at a time', `${n}`);
    if (signal.aborted) this.#world.broken('no tool begins after it was stopped', `${n}`);
    return this.begins(n, signal);
  }

  /** A handler of the app begins. */
  begins(n: number | undefined, signal: AbortSignal): ToolRun {
    const run = { n, signal };
    this.active.add(run);
    return run;
  }

  // ——— at the end

  /**
   * `isClosed`: the app closed the session, so that responses were not needed. `takenUntil`: what
   * was written before that time arrives, unless the pipe breaks.
   */
  check(isClosed: boolean, takenUntil: number): void {
    this.checkStopped();
    for (const [id, { delivered, withdrawn, written, lost, ...call }] of this.#calls) {
      if (written > 0 && call.writtenAt < takenUntil && call.arrived + lost === 0)
        this.#world.broken('an answer arrives or is reported lost', id);
      if (delivered > 0 && written + lost === 0 && !withdrawn && !isClosed)
        this.#world.broken('each call is answered or reported lost', id);
    }
  }

  /** The session is over or closing: every handler must know. */
  checkStopped(): void {
    for (const { n, signal } of this.active)
      if (!signal.aborted) this.#world.broken('a tool is stopped with its session', `call ${n}`);
  }

  /** In a run without faults every answer arrives. */
  checkArrived(): void {
    for (const [id, { withdrawn, arrived }] of this.#calls)
      if (!withdrawn && arrived !== 1)
        this.#world.broken('without a fault, every answer arrives', `${id}: ${arrived}`);
  }
}
