import { resolve } from 'node:path';
import { DuolaneError, errorMessage } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { isControl } from '../../wire/control-peer.ts';
import { serveControl } from './control-handlers.ts';
import { readPrompt } from './read-prompt.ts';
import type { ServerRequests } from './mcp-client-requests.ts';
import type { AgentFlags } from '../command-line/flags.ts';
import { HookDispatcher } from '../permissions/hook-dispatcher.ts';
import { ControlLink } from '../../wire/control-link.ts';
import { type ChosenModel, chooseModel } from '../models/choose-model.ts';
import type { TokenUsage } from '../models/types.ts';
import type { Opened } from '../session/open-session.ts';
import { realPath } from '../permissions/path-rules.ts';
import { idsOf, type Prompt, PromptQueue } from '../session/prompt-queue.ts';
import type { PermissionRule } from '../permissions/permission-rules.ts';
import type { Sandbox } from '../sandbox/bubblewrap.ts';
import { CliSession } from '../session/cli-session.ts';
import { historyFrom, Transcript } from '../session/transcript.ts';
import { costOf, maySample, type Settings } from '../command-line/settings.ts';
import type { Workspace } from '../tools/builtin/workspace.ts';
import { McpServers } from '../tools/mcp/mcp-servers.ts';
import { toolEnv } from '../tools/tool-env.ts';
import type { AgentTool } from '../tools/types.ts';
import { sumUsage, TurnInterrupted, TurnState } from '../turn/turn-state.ts';
import { VERSION } from '../version.ts';

export interface AgentLoopOptions {
  readonly flags: AgentFlags;
  readonly settings: Settings;
  readonly mcpConfigs: readonly JsonObject[];
  /** Notices about options without effect, for the message lane. */
  readonly notices?: readonly string[];
  readonly model: ChosenModel;
  /** The sandbox of commands, if the settings enable it. */
  readonly sandbox?: Sandbox | undefined;
  readonly stored: Opened;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly write: (message: JsonObject) => void;
  readonly drained: () => Promise<void>;
  /** Writes a line to stderr, for people. */
  readonly note: (text: string) => void;
}

/** How long a turn, and the SessionEnd hooks, may take when the process must exit. */
const EXIT_GRACE_MS = 1500;

/**
 * The agent loop: takes frames of the host and runs one turn after the other. After `endInput` it
 * finishes the queued turns and then resolves `done` with the exit code.
 */
export class AgentLoop {
  readonly session: CliSession;
  readonly done: Promise<number>;
  readonly #options: AgentLoopOptions;
  readonly #lane: ControlLink;
  readonly #servers: McpServers;
  readonly #ended = new AbortController();
  #turn: TurnState | undefined;
  #started = false;
  #inputEnded = false;
  #sessionEndFired = false;
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
        maySample: (server) => maySample(settings.sampling, server),
        onRequest: async (server, method, params, signal) => {
          const { answerServer } = await import('./mcp-client-requests.ts');
          const able: ServerRequests = {
            lane,
            cwd,
            model: () => this.session.parts.choices.model,
            sampling: settings.sampling,
            countSampling: (name) =>
              this.#servers.countSampling(name, settings.sampling.maxRequests),
            addUsage: (usage, chosen) => this.#addUsage(usage, chosen),
          };
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
    const workspace = {
      cwd,
      env: childEnv,
      directories: () => choices.directories,
      policy: () => this.session.policy,
      sandbox: options.sandbox,
    };
    const builtins = loadBuiltins(flags.tools, workspace);
    builtins.catch(() => {}); // the first turn awaits it and reports the failure
    this.session = new CliSession({
      id: stored.id,
      cwd,
      flags,
      settings,
      choices,
      history: historyFrom(stored.entries),
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
      reportsState: env['CLAUDE_CODE_SDK_READS_SESSION_STATE'] === '1',
    });
    this.session.announce(...(options.notices ?? []));
    for (const config of options.mcpConfigs) this.#servers.addAll(config);
  }

  /** Takes one frame of stdin. Throws `invalid` for a frame that must end the session. */
  receive(frame: JsonObject): void {
    if (frame['type'] === 'control_request' && !isObject(frame['request'])) {
      throw new DuolaneError(
        'invalid',
        'the host sent a control_request without a request: expected an object',
      );
    }
    if (isControl(frame)) this.#lane.receive(frame);
    else if (frame['type'] === 'user') this.submit(readPrompt(frame));
  }

  /** Takes a prompt: starts a turn, or adds the prompt to the queue. */
  submit(prompt: Prompt): void {
    const { session } = this;
    session.setState('running');
    this.#lifecycle([prompt], 'queued');
    if (!this.#turn) {
      this.#begin([prompt]);
      return;
    }
    session.parts.queue.add(prompt);
    if (prompt.priority === 'now') {
      this.#turn.controller.abort(new TurnInterrupted('now', 'interrupted by an urgent message'));
    }
  }

  /**
   * Handles the end of stdin: requests to the host fail, queued turns still run. A turn that waits
   * for tools of the host ends, and its calls stay open. Passing their failure to the model would
   * cost money and store a wrong result in the transcript.
   */
  endInput(): void {
    if (this.#inputEnded) return;
    this.#inputEnded = true;
    const waits = this.#turn?.awaited.size ?? 0;
    if (waits > 0) {
      const why = `the host closed the input before it answered ${waits} tool call(s); resume the session to continue`;
      this.#turn?.controller.abort(new TurnInterrupted('end', why));
    }
    this.#lane.end(
      new DuolaneError('closed', 'cannot send the request: the host has closed the input'),
    );
    if (!this.#turn) this.#end().catch(reportUnexpected);
  }

  /** Ends the session because the process must exit; the turn and the hooks get a grace period. */
  async terminate(why: string): Promise<void> {
    this.session.parts.queue.cancelAll();
    this.#turn?.controller.abort(new TurnInterrupted('end', why));
    await this.#fireSessionEnd();
    this.endInput();
    const { settledWithin } = await import('../../stream/abort.ts');
    await settledWithin(this.done, EXIT_GRACE_MS);
  }

  /** Interrupts the running turn; with `cancelQueued` also drops the queued prompts. */
  interrupt({ cancelQueued }: { readonly cancelQueued: boolean }): {
    readonly stillQueued: string[];
    readonly cancelled: string[];
  } {
    const dropped = cancelQueued ? this.session.parts.queue.cancelAll() : [];
    this.#lifecycle(dropped, 'cancelled');
    this.#turn?.controller.abort(new TurnInterrupted('user', 'interrupted by the user'));
    return { stillQueued: this.session.parts.queue.uuids, cancelled: idsOf(dropped) };
  }

  cancelPrompt(uuid: string): boolean {
    const cancelled = this.session.parts.queue.cancel(uuid);
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
    // The dispatcher reports failures of hooks; the session starts anyway.
    void this.session.parts.hooks.fire('SessionStart', { source }, options).catch(() => {});
    const { history } = this.session.parts;
    const needsOutput = this.session.schema !== undefined;
    const mayContinue = this.#options.env['CLAUDE_CODE_RESUME_INTERRUPTED_TURN'] === '1';
    if (source === 'resume' && mayContinue && !this.#turn && history.isInterrupted({ needsOutput }))
      // In a later microtask, so that the response to `initialize` is written first.
      queueMicrotask(() => this.#continue());
  }

  /** Continues the turn that an earlier process left unfinished: a turn without a prompt. */
  #continue(): void {
    if (this.#turn || this.#inputEnded) return;
    this.session.setState('running');
    this.#begin([]);
  }

  /** Fires the SessionEnd hooks and ends the process with code 0. */
  endSession(): void {
    this.session.parts.queue.cancelAll();
    this.#turn?.controller.abort(new TurnInterrupted('end', 'the host ended the session'));
    // In a later microtask, so that the response to this request is written first.
    Promise.resolve()
      .then(() => this.#fireSessionEnd())
      .then(() => {
        this.#failed = false;
        this.endInput();
      })
      .catch(reportUnexpected);
  }

  /** Fires the SessionEnd hooks once and waits for them, at most for the grace period. */
  async #fireSessionEnd(): Promise<void> {
    if (this.#inputEnded || this.#sessionEndFired) return;
    this.#sessionEndFired = true;
    const options = { signal: AbortSignal.timeout(EXIT_GRACE_MS), toolUseId: '', subject: 'other' };
    // The dispatcher reports failures of hooks; the session ends anyway.
    await this.session.parts.hooks.fire('SessionEnd', { reason: 'other' }, options).catch(() => {});
  }

  /** Adds the tokens of a sampling request to the running turn, or else to the session. */
  #addUsage(usage: TokenUsage, { id, model }: ChosenModel): void {
    const { prices } = this.#options.settings;
    const cost = costOf(usage, prices[id] ?? prices[model.name]);
    if (this.#turn) return this.#turn.addUsage(usage, cost);
    const { totals } = this.session;
    totals.usage = sumUsage(totals.usage, usage);
    totals.costUsd += cost;
  }

  #begin(prompts: Prompt[]): void {
    const turn = new TurnState(prompts);
    this.#turn = turn;
    this.#lifecycle(prompts, 'started');
    this.#run(turn).catch(reportUnexpected);
  }

  async #run(turn: TurnState): Promise<void> {
    const { session } = this;
    // Loaded with the first turn, so that the response to `initialize` does not wait for it.
    const { runTurn } = await import('../turn/turn.ts');
    const result = await runTurn(session, turn);
    this.#failed = result['is_error'] === true;
    this.#lifecycle(turn.prompts, turn.interrupted ? 'cancelled' : 'completed');
    this.#turn = undefined;
    const next = session.parts.queue.take();
    if (next.length > 0) {
      this.#begin(next);
      return;
    }
    session.setState('idle');
    if (this.#inputEnded) await this.#end();
  }

  async #end(): Promise<void> {
    // A host that has closed stdin still reads stdout: it gets the event and cannot respond.
    if (!this.#sessionEndFired) this.session.parts.hooks.notify('SessionEnd', { reason: 'other' });
    this.#sessionEndFired = true;
    this.#ended.abort(new DuolaneError('closed', 'the session has ended'));
    const closed = await Promise.allSettled([
      this.#servers[Symbol.asyncDispose](),
      this.session.parts.transcript[Symbol.asyncDispose](),
    ]);
    for (const each of closed)
      if (each.status === 'rejected')
        this.#options.note(`cannot close the session cleanly: ${errorMessage(each.reason)}`);
    this.#finish(this.#failed ? 1 : 0);
  }

  #lifecycle(prompts: readonly Prompt[], state: string): void {
    for (const uuid of idsOf(prompts)) {
      this.session.emit({ type: 'command_lifecycle', command_uuid: uuid, state });
    }
  }
}

/**
 * Deny rules for the file tools: what a command in the sandbox must not use, they must not either.
 */
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
  workspace: Workspace,
): Promise<readonly AgentTool[]> {
  if (names.length === 0) return [];
  const { builtinTools } = await import('../tools/builtin/builtin-tools.ts');
  return builtinTools(names, workspace);
}

const describeLog = (data: unknown): string =>
  typeof data === 'string' ? data : JSON.stringify(data);
