// The system under test of the A2A compatibility kit: `npx tsx scripts/tck-server.ts [port]
// [hybrid]`. See docs/reference/conformance.md. The kit reuses message ids, so this server does not
// deduplicate messages, and its webhook receiver is on this machine, so private addresses are
// allowed.
import { memoryLog } from '../src/task/index.ts';
import { serve } from '../src/serve/index.ts';
import { tckAgent, tckReply } from '../test/a2a/tck-agent.ts';

const [port = '41241', shape = 'pure'] = process.argv.slice(2);
const grpcPort = Number(port) + 1;
const served = await serve(tckAgent, {
  port: Number(port),
  // gRPC clients expect a target without a scheme; the kit for 0.3 expects a URL.
  grpc: {
    port: grpcPort,
    publicUrl: `${shape === 'hybrid' ? 'http://' : ''}127.0.0.1:${grpcPort}`,
  },
  page: false,
  log: memoryLog({ dedupe: false }),
  card: {
    name: 'TCK agent',
    description: 'Behaves as the compatibility kit requests by message id.',
    // The kit sends an unknown media type and counts an error response as a failure.
    inputModes: ['*/*'],
  },
  a2a: {
    card: shape === 'hybrid' ? 'hybrid' : 'pure',
    reply: tckReply,
    push: { allowPrivateAddresses: true },
  },
});
console.log(`${served.url}/a2a`);
process.once('SIGTERM', () => void served[Symbol.asyncDispose]());
