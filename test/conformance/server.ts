import { fileURLToPath } from 'node:url';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { dialStdio } from '../../src/mcp/json-rpc/stdio.ts';
import type { DialMessagesOptions, ToolSource } from '../../src/mcp/types.ts';
import { buildEnv } from '../../src/process/index.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { memoryLog } from '../../src/task/index.ts';
import { withTasks } from '../../src/mcp/tasks/index.ts';
import { conformanceSource, longTool } from './catalogue.ts';

/**
 * Prints its address; exits at the end of its input. With `bridged`, a second server stands in
 * front of the first; with `bridged-old`, the two speak the session protocol 2025-11-25; with
 * `grpc`, a gRPC server stands between them too, and with `stdio` the process of a second bridge. A
 * URL as the second argument replaces the first server: it is that of a running server.
 */
const scope = new Disposer();
const [, , mode, given] = process.argv;
const COMMAND = fileURLToPath(new URL('../../src/cli/duolane.ts', import.meta.url));
const capabilities = { elicitation: {}, sampling: {}, roots: {} };

let url = given ?? (await ownServer());
if (mode !== 'direct') url = scope.use(await offerHttp(await dial(url))).url;
process.stdout.write(`${url}\n`);
process.stdin.resume().once('end', () => void scope[Symbol.asyncDispose]());

async function ownServer(): Promise<string> {
  const log = scope.use(memoryLog());
  const tasks = scope.use(withTasks(conformanceSource(), { log, long: longTool }));
  return scope.use(await offerHttp(tasks)).url;
}

async function dial(to: string): Promise<ToolSource> {
  if (mode === 'stdio')
    return scope.use(
      await dialStdio({
        command: process.execPath,
        args: ['--import', 'tsx', COMMAND, 'bridge', to, 'stdio:'],
        env: buildEnv(),
        protocol: 'auto',
        capabilities,
      }),
    );
  const protocols: Readonly<Record<string, DialMessagesOptions['protocol']>> = {
    'bridged-old': 'session',
  };
  const protocol = protocols[mode ?? ''] ?? (given === undefined ? 'stateless' : 'auto');
  const source = scope.use(await dialHttp({ url: to, protocol, capabilities }));
  if (mode !== 'grpc') return source;
  const offered = scope.use(await offerGrpc(source));
  return scope.use(await dialGrpc({ url: offered.url }));
}
