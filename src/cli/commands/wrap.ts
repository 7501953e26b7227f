import { DuolaneError } from '../../errors.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { onAbort } from '../../stream/abort.ts';
import type { Frame } from '../../event/types.ts';
import { TraceWriter } from '../../host/frames/trace-writer.ts';
import { buildEnv, spawnProcess, type ProcessTransport } from '../../process/index.ts';
import { WriteGate } from '../../process/write-gate.ts';
import { PipeTap } from '../../trace/pipe-tap.ts';
import { EXIT, signalOf, textFlag, type Command } from '../command.ts';
import { framePrinter } from '../terminal/frame-printer.ts';
import type { TextOutput } from '../terminal/terminal.ts';

export const wrap: Command = {
  usage: '[options] -- <command> [arguments …]',
  required: ['<command>'],
  expected: 'duolane wrap -- <command> [arguments …]',
  options: {
    trace: {
      value: 'file',
      text: 'record both lanes in this file instead of printing them on stderr',
    },
    show: { text: 'print them on stderr as well' },
  },
  details: [
    'Stands in the pipe between a host and its stream-json CLI. Bytes pass unchanged in both\n' +
      'directions, as fast as the slower side reads; so do stderr, signals and the exit code.',
    'Exit code: that of the command, or its signal; 2 if the command cannot be started.',
  ],
  examples: [
    'duolane wrap -- claude -p --output-format stream-json --verbose "hello"',
    'duolane wrap --trace run.jsonl -- claude "$@"    in a script for pathToClaudeCodeExecutable',
  ],
  async run({ args, flags, terminal, signal }) {
    const [command = '', ...rest] = args;
    const env = buildEnv({ set: { NODE_OPTIONS: process.env['NODE_OPTIONS'] } });
    const file = textFlag(flags, 'trace');
    using trace =
      file === undefined
        ? undefined
        : new TraceWriter(file, { command, args: rest, env }, ({ message }) =>
            terminal.err.line(`duolane: ${message}`),
          );
    const show = file === undefined || flags['show'] === true;
    const tap = tapOf(trace, show ? terminal.err : undefined, terminal.err);

    signal.throwIfAborted(); // a child that is started after the signal would not get it
    await using child = spawnProcess({
      command,
      args: rest,
      env,
      onStderr: (text) => terminal.err.write(text),
    });
    const pass = (): void => {
      const name = signalOf(signal);
      if (child.pid === undefined) return;
      // Without a signal the host has closed stdout, and no one else could end a CLI that stays.
      if (name === undefined) Promise.resolve(child[Symbol.asyncDispose]()).catch(() => {});
      else process.kill(child.pid, name);
    };
    const unlisten = onAbort(signal, pass);
    feed(child, tap).catch(reportUnexpected);
    await drain(child, tap);
    const exit = await child.exited;
    unlisten();
    process.stdin.destroy();
    if (exit.startError) throw exit.startError;
    tap.exited(exit.code, exit.signal);
    return (exit.signal as NodeJS.Signals | undefined) ?? exit.code ?? EXIT.failed;
  },
};

/**
 * Observes the pipe. A failure of the trace or the printer must not break it, so it is reported
 * once.
 */
function tapOf(
  trace: TraceWriter | undefined,
  show: TextOutput | undefined,
  err: TextOutput,
): PipeTap {
  const print = show && framePrinter(show);
  let isOff = false;
  return new PipeTap((frame: Frame) => {
    if (isOff) return;
    try {
      print?.(frame);
      trace?.write(frame);
    } catch (error) {
      isOff = true;
      err.line(`duolane: cannot continue the trace: ${DuolaneError.from(error).message}`);
    }
  });
}

/** Copies our stdin to the child's, as fast as the child reads. */
async function feed(child: ProcessTransport, tap: PipeTap): Promise<void> {
  try {
    for await (const chunk of process.stdin) {
      tap.bytes('out', chunk as Buffer);
      if (!child.write(chunk as Buffer)) await child.drained();
    }
    tap.ended('out');
    child.endInput();
  } catch {
    // The child no longer reads; its exit reports why.
  }
}

/** Copies the child's stdout to ours, as fast as the host reads. */
async function drain(child: ProcessTransport, tap: PipeTap): Promise<void> {
  const { stdout } = process;
  const gate = new WriteGate();
  const onDrain = (): void => gate.open();
  const onGone = (): void => gate.close('stdout is closed');
  stdout.on('drain', onDrain).on('close', onGone).on('error', onGone);
  for await (const chunk of child.output) {
    tap.bytes('in', chunk);
    if (stdout.destroyed || stdout.write(chunk)) continue;
    await gate.drained(stdout.writableNeedDrain).catch(() => {}); // EPIPE: the terminal reports it
  }
  stdout.off('drain', onDrain).off('close', onGone).off('error', onGone);
  if (child.pid !== undefined) tap.ended('in');
}
