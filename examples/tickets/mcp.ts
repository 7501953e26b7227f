// `npx tsx examples/tickets/mcp.ts`: the same server for any MCP client, over stdin and stdout.
// The user of the client is then the reviewer, by elicitation.
import { offerStdio } from 'duolane/mcp';
import { openBoard } from './board.ts';
import { ticketServer } from './server.ts';

await using board = openBoard(process.env['TICKETS_FILE'] ?? '.duolane/tickets.sqlite');
await offerStdio(ticketServer(board).instance).done;
