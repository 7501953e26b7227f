import { DuolaneError } from '../../errors.ts';
import { tryParse } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import { RPC, rpcError } from '../../wire/json-rpc.ts';
import { InvalidLine, LineDecoder } from '../../wire/jsonl.ts';
import { parseFlags } from '../command-line/flags.ts';
import { LineOutput } from '../command-line/line-output.ts';
import { AcpServer } from './acp-server.ts';

/** Flags that the client, not the command line, decides about. */
const REFUSED = [
  '-p',
  '--print',
  '--input-format',
  '--output-format',
  '--resume',
  '-r',
  '--continue',
  '-c',
  '--session-id',
  '--fork-session',
];
const TOOLS = 'Read,Write,Edit,Glob,Grep,Bash';
const STREAM_JSON =
  '--input-format stream-json --output-format stream-json --verbose --include-partial-messages --permission-prompt-tool stdio';

/**
 * Serves an editor on stdin and stdout until it closes stdin. `command` is the file of this
 * program, which each session runs.
 */
export async function serveAcp(
  command: string,
  argv: readonly string[],
  note: (text: string) => void,
): Promise<void> {
  const given = argv.filter((arg) => arg !== '--acp');
  const refused = given.find((arg) => REFUSED.includes(arg.split('=')[0] as string));
  if (refused !== undefined)
    throw new DuolaneError(
      'invalid',
      `${refused} cannot be used with --acp: the client of the protocol decides that`,
    );
  for (const text of parseFlags(given).notes) note(text);
  const hasTools = given.some((arg) => arg === '--tools' || arg.startsWith('--tools='));
  const output = new LineOutput(process.stdout);
  await using server = new AcpServer({
    command,
    args: [...given, ...(hasTools ? [] : ['--tools', TOOLS]), ...STREAM_JSON.split(' ')],
    env: process.env,
    send: (message) => output.write(message),
    drained: () => output.drained(),
    note,
  });
  onAbort(output.gone, () => {
    process.exitCode = 0;
    process.stdin.destroy();
  });
  const decoder = new LineDecoder();
  const take = (lines: ReturnType<LineDecoder['decode']>): void => {
    for (const line of lines) {
      const value = line instanceof InvalidLine ? undefined : tryParse(line);
      if (value === undefined)
        output.write(rpcError(null, RPC.parseError, 'invalid message: expected one line of JSON'));
      else server.receive(value);
    }
  };
  for await (const chunk of process.stdin) take(decoder.decode(chunk as Buffer));
  take(decoder.flush());
}
