import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import type { ToolSource } from '../../src/mcp/types.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { memoryLog } from '../../src/task/index.ts';
import { withTasks } from '../../src/mcp/tasks/index.ts';
import { conformanceSource, longTool } from './catalogue.ts';

/**
 * Prints its address; exits at the end of its input. With `bridged`, a second server stands in
 * front of the first; with `bridged-old`, the two speak the session protocol 2025-11-25; with
 * `grpc`, a gRPC server stands between them too.
 */
const scope = new Disposer();
const [, , mode] = process.argv;
const log = scope.use(memoryLog());
const tasks = scope.use(withTasks(conformanceSource(), { log, long: longTool }));
let offered = scope.use(await offerHttp(tasks));
if (mode !== 'direct') {
  const protocol = mode === 'bridged-old' ? 'session' : 'stateless';
  const capabilities = { elicitation: {}, sampling: {}, roots: {} };
  let source: ToolSource = scope.use(await dialHttp({ url: offered.url, protocol, capabilities }));
  if (mode === 'grpc') {
    const { url } = scope.use(await offerGrpc(source));
    source = scope.use(await dialGrpc({ url }));
  }
  offered = scope.use(await offerHttp(source));
}
process.stdout.write(`${offered.url}\n`);
process.stdin.resume().once('end', () => void scope[Symbol.asyncDispose]());
