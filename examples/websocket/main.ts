// node dist/examples/websocket/main.js: offers a tool over WebSocket, dials it, and bridges it to
// HTTP.
import { once } from 'node:events';
import * as mcp from 'duolane/mcp';
import { webSocketTransport } from './transport.ts';
import { loadWs } from './ws.ts';

const { WebSocket, WebSocketServer } = await loadWs();
const maxPayload = 16 * 2 ** 20;
const registry = mcp.createRegistry({
  name: 'moon',
  tools: [mcp.tool('landing', 'When Apollo 11 landed', {}, () => '20 July 1969')],
});

// Offer: each connection is a client.
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, maxPayload });
server.on('connection', (socket) => mcp.serveMessages(registry, webSocketTransport(socket)));
await once(server, 'listening');
const url = `ws://127.0.0.1:${server.address().port}`;

// Dial: the transport becomes a source, like any other.
const connect = async (): Promise<mcp.MessageTransport> => {
  const socket = new WebSocket(url, 'mcp', { maxPayload });
  await once(socket, 'open');
  return webSocketTransport(socket);
};
await using source = await mcp.dialMessages(await connect());
for await (const { name } of source.listTools()) console.log(`over WebSocket: ${name}`);

// Bridge: each client of the HTTP endpoint gets a WebSocket of its own.
await using offered = await mcp.offerHttp(mcp.relaySource(connect));
await using bridged = await mcp.dialHttp({ url: offered.url });
for await (const event of bridged.callTool({ id: '1', name: 'landing', args: {} }))
  if (event.type === 'result')
    console.log(`through a bridge: ${JSON.stringify(event.result.content)}`);

server.close();
for (const socket of server.clients) socket.terminate();
