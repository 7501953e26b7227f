import { buildEnv, spawnProcess } from '../../../process/index.ts';
import { allowsCommand } from '../../permissions/command-rules.ts';
import { asString } from '../../../json.ts';
import type { Sandbox, SandboxedCommand } from '../../sandbox/bubblewrap.ts';
import { raceAbort } from '../../../stream/abort.ts';
import type { AgentTool, ToolOutcome } from '../types.ts';
import type { Workspace } from './workspace.ts';

const DEFAULT_MS = 120_000;
const MAX_MS = 600_000;
const MAX_OUTPUT_BYTES = 100_000;

/**
 * Runs a command in a new shell, in the working directory. Output above 100 kB is read and dropped,
 * and the shell is killed when the timeout expires. All processes that it started end with the
 * call: its process group, its descendants and, on Linux, daemons outside of both, which are found
 * by a variable in their environment. A daemon that clears its environment survives, except in the
 * sandbox.
 */
export const bashTool = (workspace: Workspace): AgentTool => ({
  spec: {
    name: 'Bash',
    description: `Runs a shell command in the working directory. At most ${MAX_OUTPUT_BYTES / 1000} kB of output are kept.`,
    input_schema: {
      type: 'object',
      properties: {
        command: { type: 'string' },
        description: { type: 'string', description: 'A short description of the command' },
        timeout: { type: 'integer', minimum: 1, maximum: MAX_MS, description: 'In ms' },
      },
      required: ['command'],
    },
  },
  readOnly: false,
  facts: (input) => {
    const command = asString(input['command']);
    const enclosed = sandboxFor(workspace, command);
    return {
      command,
      edit: false,
      enclosed: enclosed?.policy.autoAllow === true,
      summary: asString(input['description']) || undefined,
    };
  },
  async call(input, { signal }) {
    const { timeout } = input;
    const limitMs = Math.min(typeof timeout === 'number' ? timeout : DEFAULT_MS, MAX_MS);
    return runCommand(workspace, asString(input['command']), limitMs, signal);
  },
});

/** The sandbox of a command. It runs outside only if one pattern excludes every part of it. */
function sandboxFor({ sandbox }: Workspace, command: string): Sandbox | undefined {
  const excluded = sandbox?.policy.excluded.some((pattern) => allowsCommand(pattern, command));
  return excluded ? undefined : sandbox;
}

async function runCommand(
  workspace: Workspace,
  command: string,
  limitMs: number,
  signal: AbortSignal,
): Promise<ToolOutcome> {
  const enclosed = await sandboxFor(workspace, command)?.enclose(command, workspace.directories());
  let renamed: readonly string[] = [];
  let outcome: ToolOutcome;
  try {
    outcome = await runShell(workspace, { command, enclosed, limitMs, signal });
  } finally {
    // All processes of the command have ended, so its files cannot change any more.
    renamed = (await enclosed?.release()) ?? [];
  }
  if (renamed.length === 0) return outcome;
  const note = `Renamed, because other programs would run its content: ${renamed.join(', ')}`;
  const content = typeof outcome.content === 'string' ? `${outcome.content}\n${note}` : note;
  return { ...outcome, content, isError: true };
}

interface ShellRun {
  readonly command: string;
  readonly enclosed: SandboxedCommand | undefined;
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

async function runShell(
  workspace: Workspace,
  { command, enclosed, limitMs, signal }: ShellRun,
): Promise<ToolOutcome> {
  const limit = AbortSignal.timeout(limitMs);
  const stderr = new CappedOutput();
  const stdout = new CappedOutput();
  await using child = spawnProcess({
    command: enclosed?.command ?? '/bin/sh',
    args: enclosed?.args ?? ['-c', command],
    cwd: workspace.cwd,
    env: buildEnv({ base: workspace.env, set: enclosed ? { TMPDIR: '/tmp' } : {} }),
    markEnv: 'DUOLANE_CALL',
    graceMs: 0,
    killMs: 1000,
    onStderr: (text) => stderr.add(text),
  });
  try {
    if (enclosed) child.write(enclosed.input);
  } catch {
    // The process has exited already; its exit code and stderr say why.
  }
  child.endInput();
  const decoder = new TextDecoder();
  const read = (async () => {
    for await (const chunk of child.output) stdout.add(decoder.decode(chunk, { stream: true }));
    return child.exited;
  })();
  const exit = await raceAbort(read, AbortSignal.any([signal, limit])).catch((reason: unknown) => {
    signal.throwIfAborted();
    if (!limit.aborted) throw reason;
    return undefined;
  });
  const output = [stdout.text, stderr.text].filter((text) => text !== '').join('\n');
  const raw = { stdout: stdout.text, stderr: stderr.text, interrupted: exit === undefined };
  if (exit === undefined) {
    const content = `${output}\nThe command timed out after ${limitMs} ms and was killed.`.trim();
    return { content, isError: true, raw };
  }
  const how =
    exit.startError?.message ?? (exit.signal ? `signal ${exit.signal}` : `exit code ${exit.code}`);
  const isError = exit.code !== 0;
  const content = isError ? `${output}\n(${how})`.trim() : output || '(no output)';
  return { content, isError, raw };
}

/** The first part of an output, and the number of characters that were dropped. */
class CappedOutput {
  #text = '';
  #dropped = 0;

  add(text: string): void {
    const room = MAX_OUTPUT_BYTES - this.#text.length;
    this.#text += text.slice(0, room);
    this.#dropped += Math.max(0, text.length - room);
  }

  get text(): string {
    return this.#dropped > 0
      ? `${this.#text}\n(${this.#dropped} more characters)`
      : this.#text.trimEnd();
  }
}
