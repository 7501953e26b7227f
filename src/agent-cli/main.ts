#!/usr/bin/env node
import { DuolaneError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { reportUnexpected } from '../stream/report-unexpected.ts';
import { onAbort } from '../stream/abort.ts';
import { JsonlDecoder, InvalidLine } from '../wire/jsonl.ts';
import { AgentLoop } from './loop/agent-loop.ts';
import { type AgentFlags, parseFlags } from './command-line/flags.ts';
import { type ChosenModel, chooseModel } from './models/choose-model.ts';
import { openStored, placeOf } from './session/open-session.ts';
import { LineOutput } from './command-line/line-output.ts';
import type { Policy } from './permissions/permission-policy.ts';
import { printer } from './command-line/text-printer.ts';
import { formatRule } from './permissions/permission-rules.ts';
import type { Sandbox } from './sandbox/bubblewrap.ts';
import { jsonArgument, readSettings } from './command-line/settings.ts';
import { BUILTIN_NAMES } from './tools/builtin/builtin-tools.ts';
import { VERSION } from './version.ts';

const USAGE = `duolane-agent ${VERSION}: an agent CLI for any model that speaks the stream-json protocol

  duolane-agent -p "question" --model <model>
  duolane-agent --input-format stream-json --output-format stream-json --verbose --model <model>
  duolane-agent --acp --model <model>      for editors: the Agent Client Protocol on stdin and stdout

Models: script:<file>, module:<file>, ai-sdk:<module>, openai:<model>[@<url>], anthropic:<model>;
DUOLANE_MODEL sets the default. Tools: --tools Read,Write,Edit,Glob,Grep,Bash; --mcp-config <json>.
Output of -p: --output-format text, json or stream-json (with --verbose).
Compaction is not supported: a history that exceeds the model's context ends with the model's error.
`;

/** How long the process waits, after a signal, for stdout to be flushed. */
const FLUSH_MS = 1000;

/** Writes a line for people to stderr. */
const note = (text: string): void => {
  process.stderr.write(`duolane-agent: ${text}\n`);
};

/** Ends the process as soon as stdout is flushed. */
function exit(code: number): void {
  process.exitCode = code;
  process.stdin.destroy();
  process.stdout.end(() => process.exit(code));
}

async function main(): Promise<void> {
  const argv = process.argv.slice(2);
  if (argv.includes('--acp')) {
    const [{ serveAcp }, { fileURLToPath }] = await Promise.all([
      import('./acp/serve-acp.ts'),
      import('node:url'),
    ]);
    await serveAcp(fileURLToPath(import.meta.url), argv, note);
    return exit(0);
  }
  const flags = parseFlags(argv);
  if (flags.help || flags.version) {
    process.stdout.write(flags.help ? USAGE : `${VERSION}\n`);
    return;
  }
  for (const text of flags.notes) note(text);
  const output = new LineOutput(process.stdout);
  const print = flags.inputFormat === 'text';
  // The text format prints the model's text while it is streamed, so it always needs partial
  // messages.
  const partialMessages = flags.partialMessages || flags.outputFormat === 'text';
  const agent = await openAgent({ ...flags, partialMessages }, output).catch((reason: unknown) => {
    if (!(reason instanceof DuolaneError) || reason.code !== 'unsupported') throw reason;
    // The host reads the message lane, not stderr: it must learn which guard is not supported.
    if (flags.outputFormat !== 'text')
      printer(flags.outputFormat, output)(failedStart(reason.message, 'unsupported'));
    note(reason.message);
    return undefined;
  });
  if (!agent) return exit(1);
  onAbort(output.gone, () => {
    agent.terminate('the reader of stdout closed it').catch(reportUnexpected);
  });
  let bySignal: number | undefined;
  for (const [signal, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const) {
    process.once(signal, () => {
      bySignal = code;
      const end = (): void => {
        exit(code);
        // A host that does not read stdout must not prevent the exit after a signal.
        setTimeout(() => process.exit(code), FLUSH_MS).unref();
      };
      agent.terminate(`ended by ${signal}`).catch(reportUnexpected).then(end, end);
    });
  }
  agent.done.then((code) => exit(bySignal ?? code)).catch(reportUnexpected);
  if (print) await ask(agent, flags.prompt);
  else await serve(agent);
}

/** Reads all settings and creates the loop. Undefined: the session to resume was not found. */
async function openAgent(flags: AgentFlags, output: LineOutput): Promise<AgentLoop | undefined> {
  const { env } = process;
  const cwd = process.cwd();
  const [given, ...mcpConfigs] = await Promise.all([
    flags.settings === undefined ? {} : jsonArgument('settings', flags.settings, cwd),
    ...flags.mcpConfig.map((value) => jsonArgument('mcp-config', value, cwd)),
  ]);
  const { others, notices } = await furtherSettings(given, flags, cwd);
  const settings = readSettings(given, flags, env, others);
  notices.push(...rulesWithoutTool(settings.policy));
  const sandbox = await openSandbox(given, flags, cwd);
  const model = await firstModel(flags, { cwd, env });
  if (
    flags.maxBudgetUsd !== undefined &&
    !(settings.prices[model.id] ?? settings.prices[model.model.name])
  ) {
    notices.push(
      `--max-budget-usd has no effect: the price of model "${model.model.name}" is unknown; set DUOLANE_PRICES`,
    );
  }
  for (const text of notices) note(text);
  const write = printer(flags.outputFormat, output);
  try {
    const stored = await openStored(flags, placeOf(env, cwd));
    const drained = (): Promise<void> => output.drained();
    return new AgentLoop({
      flags,
      settings,
      mcpConfigs,
      notices: [...flags.notes, ...notices],
      model,
      sandbox,
      stored,
      cwd,
      env,
      write,
      drained,
      note,
    });
  } catch (reason) {
    const error = DuolaneError.from(reason);
    if (error.code !== 'not_found') throw reason;
    write(failedStart(error.message, 'session_not_found'));
    note(error.message);
    return undefined;
  }
}

/** Notices about deny and ask rules that match no tool, e.g. because the name is misspelt. */
const rulesWithoutTool = ({ deny, ask }: Policy): string[] =>
  [...deny, ...ask]
    .filter(({ tool }) => !/^mcp__|\*/.test(tool) && !BUILTIN_NAMES.some((name) => name === tool))
    .map((rule) => `the rule "${formatRule(rule)}" has no effect: unknown tool "${rule.tool}"`);

/**
 * Opens the sandbox of the settings, if they have one. Throws where it is not available: commands
 * must not run without a sandbox that the user configured.
 */
async function openSandbox(
  given: JsonObject,
  flags: AgentFlags,
  cwd: string,
): Promise<Sandbox | undefined> {
  const { env } = process;
  if (given['sandbox'] === undefined) return undefined;
  const [{ readSandbox }, { Sandbox: Enclosure }, { homedir }, paths] = await Promise.all([
    import('./sandbox/sandbox-settings.ts'),
    import('./sandbox/bubblewrap.ts'),
    import('node:os'),
    import('node:path'),
  ]);
  const home = env['HOME'] || homedir();
  const policy = readSandbox(given['sandbox'], { cwd, home });
  if (!policy) return undefined;
  const files = [...(flags.settings === undefined ? [] : [flags.settings]), ...flags.mcpConfig]
    .filter((value) => !value.trim().startsWith('{'))
    .map((path) => paths.resolve(cwd, path));
  // The host may have replaced the configuration folder by a private one: both are hidden.
  const usual = env['DUOLANE_USUAL_CONFIG_DIR'];
  const own = [placeOf(env, cwd).configDir, ...(usual ? [usual] : []), ...files];
  return Enclosure.open({ policy, cwd, home, own, env });
}

/**
 * Reads the settings besides `--settings`, and collects notices about options without effect in any
 * of them. Throws `unsupported` for a guard that this CLI does not enforce.
 */
async function furtherSettings(
  given: JsonObject,
  flags: AgentFlags,
  cwd: string,
): Promise<{ readonly others: readonly JsonObject[]; readonly notices: string[] }> {
  const [refused] = flags.refused;
  if (refused !== undefined) throw new DuolaneError('unsupported', refused);
  const { ignoredSettings } = await import('./command-line/unsupported-options.ts');
  const ignored = [...ignoredSettings(given, '--settings', { main: true })];
  const others: JsonObject[] = [];
  if (flags.managedSettings !== undefined) {
    const managed = await jsonArgument('managed-settings', flags.managedSettings, cwd);
    ignored.push(...ignoredSettings(managed, '--managed-settings'));
    others.push(managed);
  }
  if (flags.settingSources.length > 0) {
    const { readSettingsFiles } = await import('./command-line/settings-files.ts');
    for (const { path, settings } of await readSettingsFiles(
      flags.settingSources,
      cwd,
      process.env,
    )) {
      ignored.push(...ignoredSettings(settings, path));
      others.push(settings);
    }
    ignored.push(`CLAUDE.md of the setting sources ${flags.settingSources.join(', ')}`);
  }
  if (process.env['CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING'] === 'true')
    ignored.push('enableFileCheckpointing');
  if (process.env['CLAUDE_CODE_QUESTION_PREVIEW_FORMAT'] !== undefined) ignored.push('toolConfig');
  return { others, notices: ignored.map((what) => `${what} is not supported and was ignored`) };
}

/**
 * The model of the session. Uses `--fallback-model` if the first cannot be created; a failure of a
 * later request is handled by its `ModelStep`.
 */
async function firstModel(
  flags: AgentFlags,
  place: Parameters<typeof chooseModel>[1],
): Promise<ChosenModel> {
  try {
    return await chooseModel(flags.model, place);
  } catch (reason) {
    if (flags.fallbackModel === undefined) throw reason;
    note(`${DuolaneError.from(reason).message}; using --fallback-model`);
    return chooseModel(flags.fallbackModel, place);
  }
}

/** The `result` line of a session that could not be started. */
const failedStart = (message: string, reason: string): Record<string, unknown> => ({
  type: 'result',
  subtype: 'error_during_execution',
  is_error: true,
  duration_ms: 0,
  duration_api_ms: 0,
  num_turns: 0,
  stop_reason: null,
  terminal_reason: reason,
  total_cost_usd: 0,
  usage: {},
  modelUsage: {},
  permission_denials: [],
  errors: [message],
  queued_turn_count: 0,
  result_index: 0,
  session_id: '',
  uuid: crypto.randomUUID(),
});

/** Passes each frame of stdin to the loop as soon as its line is complete. */
async function serve(agent: AgentLoop): Promise<void> {
  const decoder = new JsonlDecoder();
  const take = (frames: ReturnType<JsonlDecoder['decode']>): void => {
    for (const frame of frames) {
      if (frame instanceof InvalidLine)
        throw new DuolaneError(
          'malformed',
          `stdin: ${frame.error.message}: ${frame.text.slice(0, 200)}`,
        );
      agent.receive(frame);
    }
  };
  for await (const chunk of process.stdin) take(decoder.decode(chunk as Buffer));
  take(decoder.flush());
  agent.endInput();
}

/** Submits one prompt: the argument of `-p`, or everything on stdin. */
async function ask(agent: AgentLoop, argument: string | undefined): Promise<void> {
  let prompt = argument ?? '';
  if (argument === undefined) {
    process.stdin.setEncoding('utf8');
    for await (const chunk of process.stdin) prompt += String(chunk);
  }
  if (prompt.trim() === '')
    throw new DuolaneError(
      'invalid',
      'missing argument <prompt>: expected duolane-agent -p "question", or the question on stdin',
    );
  agent.submit({ uuid: undefined, content: prompt, priority: 'next', query: true });
  agent.endInput();
}

main().catch((reason: unknown) => {
  // `exit` destroys stdin, which rejects the iteration over it. That is the normal end of a
  // session.
  if (process.exitCode !== undefined) return;
  note(
    reason instanceof DuolaneError
      ? reason.message
      : String(reason instanceof Error ? reason.stack : reason),
  );
  exit(1);
});
