// Clients that connect to an MCP endpoint, start a call and disconnect without a message:
// `node --expose-gc --import tsx scripts/mcp-soak.ts [clients] [direct|bridged]`; 100,000 and both
// by default. Exits with 1 if a client was refused, or if a session, a call, a listener or a socket
// is left at the end.
import { soakClients } from '../test/support/mcp/client-soak.ts';

const [given = '100000', only] = process.argv.slice(2);
const clients = Number(given);
for (const kind of only === undefined ? ['direct', 'bridged'] : [only]) {
  const start = Date.now();
  const { before, after, refused } = await soakClients({
    clients,
    bridged: kind === 'bridged',
    onRefused: (response) => console.log(`${kind}: refused: ${response}`),
    onProgress: (count, held) => {
      if (count % 10_000 === 0) console.log(`${kind}: ${count} clients, ${JSON.stringify(held)}`);
    },
  });
  const seconds = Math.round((Date.now() - start) / 1000);
  console.log(`${kind}: ${clients} clients in ${seconds} s, ${refused} refused`);
  console.log(`  before ${JSON.stringify(before)}`);
  console.log(`  after  ${JSON.stringify(after)}`);
  if (refused > 0) process.exitCode = 1;
}
