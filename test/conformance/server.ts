import { dialHttp } from '../../src/mcp/json-rpc/http/dial.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/offer.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { conformanceSource } from './catalogue.ts';

/** Prints its address; ends with its input. With `bridged`, a second offer in front of the first. */
const scope = new Disposer();
let offered = scope.use(await offerHttp(conformanceSource()));
if (process.argv.includes('bridged')) {
  const capabilities = { elicitation: {}, sampling: {}, roots: {} };
  const source = scope.use(await dialHttp({ url: offered.url, era: 'modern', capabilities }));
  offered = scope.use(await offerHttp(source));
}
process.stdout.write(`${offered.url}\n`);
process.stdin.resume().once('end', () => void scope[Symbol.asyncDispose]());
