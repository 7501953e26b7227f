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
 * A command in a shell of its own, in the working directory. Output beyond 100 kB is read and
 * dropped, and the shell is ended at the time limit. What it started ends with the call: its process
 * group, its descendants and, on Linux, daemons that left both, found by a mark in their environment.
 * A daemon that clears its environment outlives the call; only the sandbox ends that one, too.
 */
export const bashTool = (place: Workspace): AgentTool => ({
  spec: {
    name: 'Bash',
    description: `Runs a shell command in the working directory. At most ${MAX_OUTPUT_BYTES / 1000} kB of output are kept.`,
    input_schema: {
      type: 'object',
      properties: {
        command: { type: 'string' },
        description: { type: 'string', description: 'What it does, in a few words' },
        timeout: { type: 'integer', minimum: 1, maximum: MAX_MS, description: 'In ms' },
      },
      required: ['command'],
    },
  },
  readOnly: false,
  facts: (input) => {
    const command = asString(input['command']);
    const enclosed = sandboxFor(place, command);
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
    return runCommand(place, asString(input['command']), limitMs, signal);
  },
});

/** Every part of a command must be excluded by one pattern, or the whole of it is enclosed. */
function sandboxFor({ sandbox }: Workspace, command: string): Sandbox | undefined {
  const excluded = sandbox?.policy.excluded.some((pattern) => allowsCommand(pattern, command));
  return excluded ? undefined : sandbox;
}

async function runCommand(
  place: Workspace,
  command: string,
  limitMs: number,
  signal: AbortSignal,
): Promise<ToolOutcome> {
  const enclosed = await sandboxFor(place, command)?.enclose(command, place.directories());
  let renamed: readonly string[] = [];
  let outcome: ToolOutcome;
  try {
    outcome = await runShell(place, { command, enclosed, limitMs, signal });
  } finally {
    // Its processes have ended: what they left behind cannot change any more.
    renamed = (await enclosed?.release()) ?? [];
  }
  if (renamed.length === 0) return outcome;
  const note = `Renamed, because other programs would run what is in it: ${renamed.join(', ')}`;
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
  place: Workspace,
  { command, enclosed, limitMs, signal }: ShellRun,
): Promise<ToolOutcome> {
  const limit = AbortSignal.timeout(limitMs);
  const stderr = new CappedOutput();
  const stdout = new CappedOutput();
  await using child = spawnProcess({
    command: enclosed?.command ?? '/bin/sh',
    args: enclosed?.args ?? ['-c', command],
    cwd: place.cwd,
    env: buildEnv({ base: place.env, set: enclosed ? { TMPDIR: '/tmp' } : {} }),
    markEnv: 'DUOLANE_CALL',
    graceMs: 0,
    killMs: 1000,
    onStderr: (text) => stderr.add(text),
  });
  try {
    if (enclosed) child.write(enclosed.input);
  } catch {
    // It has ended already: why is in its exit.
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
    const content = `${output}\nThe command was ended after ${limitMs} ms.`.trim();
    return { content, isError: true, raw };
  }
  const how =
    exit.startError?.message ?? (exit.signal ? `signal ${exit.signal}` : `exit code ${exit.code}`);
  const isError = exit.code !== 0;
  const content = isError ? `${output}\n(${how})`.trim() : output || '(no output)';
  return { content, isError, raw };
}

/** The beginning of an output, and how much more there was. */
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
