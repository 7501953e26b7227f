import type { Answer, InputRequest } from '../../../src/ask.ts';
import { DuolaneError } from '../../../src/errors.ts';
import { asObject, asString, type JsonObject } from '../../../src/json.ts';
import type { DialMessagesOptions, ToolCall, ToolEvent } from '../../../src/mcp/types.ts';
import { pause } from '../tasks/agents.ts';
import type { World } from '../world.ts';
import type { McpLedger } from './mcp-ledger.ts';
import type { CallPlan, McpClientPlan } from './plan.ts';
import { type DialledSource, dialUntil } from './tool-servers.ts';

/** What a client needs of its world. */
export interface McpSurroundings {
  readonly world: World;
  readonly ledger: McpLedger;
  /** Nothing goes wrong in this run. */
  readonly isQuiet: boolean;
  /** Several clients share one connection: what names no request may be refused. */
  readonly isShared: boolean;
  /** A pipe carries log lines without the call that they belong to. */
  readonly hasPipe: boolean;
  /** The client that makes a call. */
  readonly clientOf: (n: number) => number | undefined;
  readonly controllers: AbortController[];
  readonly track: (what: string, work: Promise<unknown>) => void;
}

class Left extends Error {}

/** How long a cancellation may take without a fault. */
const CANCEL_MS = 5000;

/** One client with its calls, and what it sees. */
export class McpClientRun {
  readonly #around: McpSurroundings;
  readonly #plan: McpClientPlan;
  readonly #calls: readonly CallPlan[];
  #source: Promise<DialledSource | undefined> | undefined;
  #isClosed = false;
  #seenChanges = 0;

  constructor(around: McpSurroundings, plan: McpClientPlan, calls: readonly CallPlan[]) {
    this.#around = around;
    this.#plan = plan;
    this.#calls = calls;
  }

  get seenChanges(): number {
    return this.#seenChanges;
  }

  get options(): DialMessagesOptions {
    const { protocol, answersBy, timeoutMs } = this.#plan;
    return {
      protocol,
      timeoutMs,
      capabilities: { elicitation: { form: {} } },
      ...(answersBy === 'onRequest' && {
        onRequest: (method, params, { signal }) => this.#answer(method, params, signal),
      }),
    };
  }

  /** Dials on the machine that calls this. */
  dial(dial: () => Promise<DialledSource>): void {
    const dialled = dialUntil(
      dial,
      () => this.#isClosed,
      (error) => this.#check('dial', error),
    );
    this.#source = dialled;
    this.#around.track('dial', dialled);
    if (this.#plan.listens) this.#around.track('listen', this.#listen());
  }

  async #listen(): Promise<void> {
    const source = await this.#source;
    try {
      for await (const { type } of source?.listen?.() ?? [])
        if (type === 'tools') this.#seenChanges++;
    } catch (error) {
      this.#check('listen', error);
    }
  }

  /** Closes the connection, so many times in parallel. */
  close(times: number): void {
    this.#isClosed = true;
    for (let each = 0; each < times; each++)
      this.#around.track(
        'dispose',
        Promise.resolve(this.#source).then((source) => source?.[Symbol.asyncDispose]()),
      );
  }

  /** Makes one call, and follows it to its end. */
  async call(plan: CallPlan): Promise<void> {
    const source = await this.#source;
    if (!source) return;
    const { n, abortMs } = plan;
    const controller = new AbortController();
    const { signal } = controller;
    this.#around.controllers.push(controller);
    if (abortMs !== undefined) {
      const { world } = this.#around;
      world.after(abortMs, world.current, `abort ${n}`, () => {
        controller.abort(new Left());
        if (this.#around.isQuiet) this.#around.ledger.stopped(n, CANCEL_MS);
      });
    }
    const call: ToolCall = { id: `call-${n}`, name: 'run', args: { ...plan } };
    const reader = new CallReader(this.#around, plan);
    try {
      const result = await this.#follow(source, call, reader, signal);
      if (result !== undefined) reader.end(result);
    } catch (error) {
      if (error instanceof Left) return;
      this.#check(`call ${n}`, error, plan);
    }
  }

  async #follow(
    source: DialledSource,
    call: ToolCall,
    reader: CallReader,
    signal: AbortSignal,
  ): Promise<JsonObject | undefined> {
    let asked: Extract<ToolEvent, { type: 'input' }> | undefined;
    for await (const event of source.callTool(call, { signal })) {
      reader.take(event);
      if (reader.leaves) {
        if (this.#around.isQuiet) this.#around.ledger.stopped(reader.n, CANCEL_MS);
        return undefined;
      }
      if (event.type === 'result') return event.result;
      if (event.type === 'input') asked = event;
      await reader.pause();
    }
    if (!asked) {
      this.#around.world.broken('a call ends with a result', `call ${reader.n}`);
      return undefined;
    }
    await pause(this.#plan.answerMs, undefined);
    const { requests, state } = asked;
    const given = requests.map((request) => this.#answerTo(request));
    const answers = [...(call.answers ?? []), ...given];
    const next = { ...call, answers, ...(state !== undefined && { state }) };
    return this.#follow(source, next, reader, signal);
  }

  #answerTo({ id, message = '' }: InputRequest): Answer {
    return { id, action: 'accept', content: { text: this.#textFor(message) } };
  }

  async #answer(method: string, params: JsonObject, signal?: AbortSignal): Promise<JsonObject> {
    if (method !== 'elicitation/create') this.#around.world.broken('only what is asked', method);
    const text = this.#textFor(asString(params['message']));
    await pause(this.#plan.answerMs, signal);
    return { action: 'accept', content: { text } };
  }

  /** The answer to a question, which must be one of the own calls. */
  #textFor(message: string): string {
    const [, n, each] = /^q (\d+) (\d+)$/.exec(message) ?? [];
    if (!this.#calls.some((call) => call.n === Number(n)))
      this.#around.world.broken('a question reaches its own client', message);
    return `a ${n} ${each}`;
  }

  #check(what: string, error: unknown, plan?: CallPlan): void {
    const { world, isQuiet } = this.#around;
    const failure = error instanceof DuolaneError ? error : undefined;
    const text = `${what}: ${(error as Error).stack}`;
    world.count(`mcp ${failure?.code ?? 'error'}`);
    if (!failure || failure.code === 'internal')
      return world.broken('every failure is typed', text);
    if (!isQuiet || this.#isClosed) return;
    // A handler that never ends, or whose question has no answer, is stopped by the time limit.
    if (failure.code === 'timeout' && plan?.act === 'hang') return;
    const { isShared, hasPipe } = this.#around;
    const isUnnamed = (isShared || hasPipe) && (plan?.asks ?? 0) > 0;
    if (failure.code === 'unsupported' && isUnnamed) return;
    world.broken('without a fault, nothing fails', text);
  }
}

/** Checks what one call yields: everything carries its number. */
class CallReader {
  readonly #around: McpSurroundings;
  readonly #plan: CallPlan;
  #events = 0;
  #progress = 0;
  #logs = 0;
  #results = 0;

  constructor(around: McpSurroundings, plan: CallPlan) {
    this.#around = around;
    this.#plan = plan;
  }

  get n(): number {
    return this.#plan.n;
  }

  get leaves(): boolean {
    const { leaveAfter } = this.#plan;
    return leaveAfter !== undefined && this.#events > leaveAfter;
  }

  async pause(): Promise<void> {
    if (this.#plan.pauseMs > 0) await pause(this.#plan.pauseMs, undefined);
  }

  take(event: ToolEvent): void {
    const { n, asks } = this.#plan;
    this.#events++;
    if (event.type === 'progress') {
      const text = event.message ?? '';
      if (!text.startsWith(`p ${n} `)) return this.#broken('progress reaches its own call', text);
      // A handler that asks runs again, and reports again.
      if (asks === 0 && event.progress !== this.#progress + 1)
        this.#broken('progress arrives once, in order', `${n}: ${event.progress}`);
      this.#progress = event.progress;
    }
    if (event.type === 'log') {
      const text = String(event.data);
      const [, of] = /^l (\d+) \d+$/.exec(text) ?? [];
      const { clientOf, hasPipe } = this.#around;
      if (clientOf(Number(of)) !== this.#plan.client)
        return this.#broken('a log line reaches its own client', text);
      if (hasPipe) return;
      if (Number(of) !== n) return this.#broken('a log line reaches its own call', text);
      if (asks === 0 && text !== `l ${n} ${this.#logs + 1}`)
        this.#broken('a log line arrives once, in order', text);
      this.#logs++;
    }
    if (event.type === 'input')
      for (const { message = '' } of event.requests) {
        const [, of] = /^q (\d+) /.exec(message) ?? [];
        const { clientOf, hasPipe } = this.#around;
        if (clientOf(Number(of)) !== this.#plan.client)
          this.#broken('a question reaches its own client', message);
        // A question of a call that was cancelled meanwhile goes to the only one that is open.
        if (!hasPipe && Number(of) !== n) this.#broken('a question reaches its own call', message);
      }
  }

  end(result: JsonObject): void {
    const { n, act, progress, logs, asks } = this.#plan;
    const { isQuiet, isShared, hasPipe } = this.#around;
    const [content] = (result['content'] ?? []) as JsonObject[];
    const text = asString(asObject(content)['text']);
    const isError = result['isError'] === true;
    if (++this.#results > 1) this.#broken('a call is answered once', `${n}`);
    if (!isError && text !== `result ${n}`) this.#broken('a result belongs to its call', text);
    if (!isError && (act === 'throw' || act === 'hang'))
      this.#broken('a result is that of the handler', `${n}: ${text}`);
    if (!isQuiet) return;
    if (isError && act !== 'throw' && !((isShared || hasPipe) && asks > 0))
      this.#broken('without a fault, a call succeeds', `${n}: ${text}`);
    if (asks > 0 || isError) return;
    if (this.#progress !== progress)
      this.#broken('all progress arrives', `${n}: ${this.#progress} of ${progress}`);
    if (this.#logs !== logs && !hasPipe)
      this.#broken('all log lines arrive', `${n}: ${this.#logs} of ${logs}`);
  }

  #broken(law: string, what: string): void {
    this.#around.world.broken(law, what);
  }
}
