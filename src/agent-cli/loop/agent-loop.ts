import { resolve } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { asObject, asString, isObject, type JsonObject } from '../../json.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { isControl } from '../../wire/control-peer.ts';
import { type LoopControls, serveControl } from './control-handlers.ts';
import type { AgentFlags } from '../command-line/flags.ts';
import { HookDispatcher } from '../permissions/hook-dispatcher.ts';
import { ControlLink } from '../../wire/control-link.ts';
import { type ChosenModel, chooseModel } from '../models/choose-model.ts';
import type { Block } from '../models/types.ts';
import type { Opened } from '../session/open-session.ts';
import { realPath } from '../permissions/path-rules.ts';
import { idsOf, type Priority, type Prompt, PromptQueue } from '../session/prompt-queue.ts';
import type { PermissionRule } from '../permissions/permission-rules.ts';
import type { Sandbox } from '../sandbox/bubblewrap.ts';
import { CliSession } from '../session/cli-session.ts';
import { historyFrom, Transcript } from '../session/transcript.ts';
import type { Settings } from '../command-line/settings.ts';
import type { Workspace } from '../tools/builtin/workspace.ts';
import { McpServers } from '../tools/mcp/mcp-servers.ts';
import { toolEnv } from '../tools/tool-env.ts';
import type { AgentTool } from '../tools/types.ts';
import { TurnInterrupted, TurnState } from '../turn/turn-state.ts';
import { VERSION } from '../version.ts';

export interface AgentLoopOptions {
  readonly flags: AgentFlags;
  readonly settings: Settings;
  readonly mcpConfigs: readonly JsonObject[];
  /** What was asked for and has no effect, for the message lane. */
  readonly notices?: readonly string[];
  readonly model: ChosenModel;
  /** Encloses commands, where the settings ask for it. */
  readonly sandbox?: Sandbox | undefined;
  readonly stored: Opened;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly write: (message: JsonObject) => void;
  readonly drained: () => Promise<void>;
  /** For people: stderr. */
  readonly note: (text: string) => void;
}

/** How long a turn may take to end when the process must. */
const EXIT_GRACE_MS = 1500;

/**
 * The agent at this end of the pipe: takes frames, runs one turn after the other, and knows when all
 * is over. After `endInput` it finishes what is queued and then resolves `done` with the exit code.
 */
export class AgentLoop implements LoopControls {
  readonly version: string = VERSION;
  readonly session: CliSession;
  readonly done: Promise<number>;
  readonly #options: AgentLoopOptions;
  readonly #lane: ControlLink;
  readonly #servers: McpServers;
  readonly #ended = new AbortController();
  #turn: TurnState | undefined;
  #started = false;
  #inputEnded = false;
  #saidGoodbye = false;
  #failed = false;
  #finish: (code: number) => void = () => {};

  constructor(options: AgentLoopOptions) {
    const { flags, settings, cwd, env, stored, model } = options;
    this.#options = options;
    this.done = new Promise((resolve) => (this.#finish = resolve));
    const childEnv = toolEnv(env, settings.passEnv);
    const lane = new ControlLink({
      side: 'agent',
      write: options.write,
      handle: (request) => serveControl(request, this),
      onIgnored: (why, _, unanswerable) => {
        if (unanswerable) this.session.emitInfo(`The host sent ${why}.`, { level: 'warning' });
      },
      errorCodes: true,
    });
    this.#lane = lane;
    this.#servers = new McpServers({
      lane,
      events: {
        elicit: async (server, request, signal) => {
          const { elicitFromHost } = await import('./mcp-client-requests.ts');
          return this.session.waiting(() => elicitFromHost(lane, server, request, signal));
        },
        log: (server, level, data) =>
          this.session.emitInfo(describeLog(data), { tag: 'mcp_log', server, level }),
      },
      help: {
        cwd,
        env: childEnv,
        clientInfo: { name: 'duolane-agent', version: VERSION },
        onRequest: async (server, method, params, signal) => {
          const { answerServer } = await import('./mcp-client-requests.ts');
          const able = { lane, cwd, model: () => this.session.choices.model };
          const answer = (): Promise<JsonObject> =>
            answerServer(able, server, method, params, signal);
          return method === 'elicitation/create' ? this.session.waiting(answer) : answer();
        },
      },
      toolTimeoutMs: Number(env['MCP_TOOL_TIMEOUT']) || undefined,
    });
    const transcript = new Transcript({
      file: stored.file,
      sessionId: stored.id,
      cwd,
      persist: flags.persist,
      ...(flags.mirror && {
        mirror: (entries) =>
          options.write({ type: 'transcript_mirror', filePath: stored.file, entries }),
      }),
    });
    transcript.continueFrom(stored.entries, { copy: stored.copy });
    const choices = {
      model,
      policy: settings.policy,
      directories: [cwd, ...settings.directories].map((path) => realPath(resolve(cwd, path))),
      thinkingTokens: flags.maxThinkingTokens,
      systemPrompt: [flags.systemPrompt, flags.appendSystemPrompt].filter(Boolean).join('\n\n'),
      effort: flags.effort,
    };
    const place = {
      cwd,
      env: childEnv,
      directories: () => choices.directories,
      policy: () => this.session.policy,
      sandbox: options.sandbox,
    };
    const builtins = loadBuiltins(flags.tools, place);
    builtins.catch(() => {}); // thrown again when a turn needs them
    this.session = new CliSession({
      id: stored.id,
      cwd,
      flags,
      settings,
      choices,
      conversation: historyFrom(stored.entries),
      transcript,
      lane,
      hooks: new HookDispatcher({
        lane,
        base: () => ({
          session_id: stored.id,
          transcript_path: stored.file,
          cwd,
          permission_mode: choices.policy.mode,
        }),
        onFailure: (event, why) => {
          options.note(`${event} hook ${why}`);
          this.session.emitInfo(`${event} hook ${why}`, { tag: 'hook_callback_failed' });
        },
      }),
      servers: this.#servers,
      queue: new PromptQueue(),
      fallback: flags.fallbackModel
        ? () => chooseModel(flags.fallbackModel, { cwd, env })
        : undefined,
      builtins,
      guards: () => closedPaths(options.sandbox, choices.directories),
      write: options.write,
      drained: options.drained,
      tellState: env['CLAUDE_CODE_SDK_READS_SESSION_STATE'] === '1',
    });
    this.session.announce(...(options.notices ?? []));
    for (const config of options.mcpConfigs) this.#servers.addAll(config);
  }

  /** Takes one line of stdin. Throws `invalid` for one that ends the session. */
  receive(frame: JsonObject): void {
    if (frame['type'] === 'control_request' && !isObject(frame['request'])) {
      throw new DuolaneError('invalid', 'a control_request without a request');
    }
    if (isControl(frame)) this.#lane.receive(frame);
    else if (frame['type'] === 'user') this.submit(readPrompt(frame));
  }

  /** A message of the user: starts a turn, or waits for one. */
  submit(prompt: Prompt): void {
    const { session } = this;
    session.setState('running');
    this.#lifecycle([prompt], 'queued');
    if (!this.#turn) {
      this.#begin([prompt]);
      return;
    }
    session.queue.add(prompt);
    if (prompt.priority === 'now') {
      this.#turn.controller.abort(new TurnInterrupted('now', 'a more urgent message came'));
    }
  }

  /**
   * No more frames will come: requests to the host fail, queued turns still run. A turn that waits
   * for the host's tools ends, and its calls stay open: to call the model with their failure would
   * cost money and put a falsehood on record.
   */
  endInput(): void {
    if (this.#inputEnded) return;
    this.#inputEnded = true;
    const waits = this.#turn?.awaited.size ?? 0;
    if (waits > 0) {
      const why = `the host closed the input before it answered ${waits} tool call(s); resume the session to go on`;
      this.#turn?.controller.abort(new TurnInterrupted('end', why));
    }
    this.#lane.end(
      new DuolaneError('closed', 'the host has closed the input, so it can no longer answer'),
    );
    if (!this.#turn) this.#end().catch(reportUnexpected);
  }

  /** The process must end: hooks and the running turn get a short time to say so. */
  async terminate(why: string): Promise<void> {
    this.session.queue.cancelAll();
    this.#turn?.controller.abort(new TurnInterrupted('end', why));
    await this.#sayGoodbye();
    this.endInput();
    const { settledWithin } = await import('../../stream/abort.ts');
    await settledWithin(this.done, EXIT_GRACE_MS);
  }

  interrupt({ cancelQueued }: { readonly cancelQueued: boolean }): {
    readonly stillQueued: string[];
    readonly cancelled: string[];
  } {
    const dropped = cancelQueued ? this.session.queue.cancelAll() : [];
    this.#lifecycle(dropped, 'cancelled');
    this.#turn?.controller.abort(new TurnInterrupted('user', 'interrupted by the user'));
    return { stillQueued: this.session.queue.uuids, cancelled: idsOf(dropped) };
  }

  cancelPrompt(uuid: string): boolean {
    const cancelled = this.session.queue.cancel(uuid);
    if (cancelled)
      this.session.emit({ type: 'command_lifecycle', command_uuid: uuid, state: 'cancelled' });
    return cancelled;
  }

  chooseModel(name: string | undefined): Promise<ChosenModel> {
    const { flags, cwd, env } = this.#options;
    return chooseModel(name ?? flags.model, { cwd, env });
  }

  started(source: 'startup' | 'resume'): void {
    if (this.#started) return; // a repeated initialize
    this.#started = true;
    const options = { signal: this.#ended.signal, toolUseId: '', subject: source };
    // Hooks report their own failures; a session starts without them.
    void this.session.hooks.fire('SessionStart', { source }, options).catch(() => {});
  }

  endSession(): void {
    this.session.queue.cancelAll();
    this.#turn?.controller.abort(new TurnInterrupted('end', 'the host ended the session'));
    // After the answer to this request.
    Promise.resolve()
      .then(() => this.#sayGoodbye())
      .then(() => {
        this.#failed = false;
        this.endInput();
      })
      .catch(reportUnexpected);
  }

  /** The SessionEnd hooks, once, while the host can still answer; it is not waited for long. */
  async #sayGoodbye(): Promise<void> {
    if (this.#inputEnded || this.#saidGoodbye) return;
    this.#saidGoodbye = true;
    const options = { signal: AbortSignal.timeout(EXIT_GRACE_MS), toolUseId: '', subject: 'other' };
    // Hooks report their own failures; a session ends without them.
    await this.session.hooks.fire('SessionEnd', { reason: 'other' }, options).catch(() => {});
  }

  #begin(prompts: Prompt[]): void {
    const turn = new TurnState(prompts);
    this.#turn = turn;
    this.#lifecycle(prompts, 'started');
    this.#run(turn).catch(reportUnexpected);
  }

  async #run(turn: TurnState): Promise<void> {
    const { session } = this;
    // Loaded with the first turn: the answer to `initialize` does not wait for it.
    const { runTurn } = await import('../turn/turn.ts');
    const result = await runTurn(session, turn);
    this.#failed = result['is_error'] === true;
    this.#lifecycle(turn.prompts, turn.interrupted ? 'cancelled' : 'completed');
    this.#turn = undefined;
    const next = session.queue.take();
    if (next.length > 0) {
      this.#begin(next);
      return;
    }
    session.setState('idle');
    if (this.#inputEnded) await this.#end();
  }

  async #end(): Promise<void> {
    // A host that has closed our input can still hear it, though not answer.
    if (!this.#saidGoodbye) this.session.hooks.notify('SessionEnd', { reason: 'other' });
    this.#saidGoodbye = true;
    this.#ended.abort(new DuolaneError('closed', 'the session is over'));
    const closed = await Promise.allSettled([
      this.#servers[Symbol.asyncDispose](),
      this.session.transcript[Symbol.asyncDispose](),
    ]);
    for (const each of closed)
      if (each.status === 'rejected')
        this.#options.note(`something could not be closed: ${String(each.reason)}`);
    this.#finish(this.#failed ? 1 : 0);
  }

  #lifecycle(prompts: readonly Prompt[], state: string): void {
    for (const uuid of idsOf(prompts)) {
      this.session.emit({ type: 'command_lifecycle', command_uuid: uuid, state });
    }
  }
}

/** What a command in the sandbox may not touch, the file tools of this process may not either. */
function closedPaths(
  sandbox: Sandbox | undefined,
  directories: readonly string[],
): readonly PermissionRule[] {
  if (!sandbox) return [];
  const { readOnly, hidden } = sandbox.closed(directories);
  const rules = (tool: string, paths: readonly string[]): PermissionRule[] =>
    paths.map((content) => ({ tool, content }));
  return [
    ...rules('Read', hidden),
    ...['Write', 'Edit'].flatMap((tool) => rules(tool, [...readOnly, ...hidden])),
  ];
}

async function loadBuiltins(
  names: readonly string[],
  place: Workspace,
): Promise<readonly AgentTool[]> {
  if (names.length === 0) return [];
  const { builtinTools } = await import('../tools/builtin/builtin-tools.ts');
  return builtinTools(names, place);
}

/** A `user` line as a prompt. Throws `invalid` for one whose message is not a user's. */
export function readPrompt(frame: JsonObject): Prompt {
  const { role, content } = asObject(frame['message']);
  if (role !== 'user' || !(typeof content === 'string' || Array.isArray(content))) {
    throw new DuolaneError(
      'invalid',
      'a user line needs message: {role: "user", content: text or blocks}',
    );
  }
  const priority = asString(frame['priority'], 'next');
  return {
    uuid: asString(frame['uuid']) || undefined,
    content:
      typeof content === 'string' ? content : (content.filter(isObject) as unknown as Block[]),
    priority: isPriority(priority) ? priority : 'next',
    query: frame['shouldQuery'] !== false,
  };
}

const isPriority = (word: string): word is Priority =>
  word === 'now' || word === 'next' || word === 'later';

const describeLog = (data: unknown): string =>
  typeof data === 'string' ? data : JSON.stringify(data);
