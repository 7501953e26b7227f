// `npx tsx examples/tickets/main.ts ["bug: Fix login bug. Users can't log in on mobile"]`
import { DuolaneError } from 'duolane';
import { openSession } from 'duolane/host';
import { openBoard } from './board.ts';
import { terminalReviewer } from './review.ts';
import { ticketServer } from './server.ts';
import { sessionOptions } from './session.ts';
import { letReaderLeave } from '../support/stdout.ts';

letReaderLeave();

const [text = "bug: Fix login bug. Users can't log in on mobile"] = process.argv.slice(2);

await using board = openBoard(process.env['TICKETS_FILE'] ?? '.duolane/tickets.sqlite');
try {
  await using session = await openSession({
    ...sessionOptions(ticketServer(board)),
    ask: terminalReviewer(),
    persistSession: false,
  });
  console.log(`> ${text}`);
  await session.send(text);
  for await (const message of session.response()) {
    if (message['type'] !== 'result') continue;
    console.log(`\n${String(message['result'] ?? message['errors'])}`);
    process.exitCode = message['is_error'] ? 1 : 0;
  }
} catch (error) {
  console.error(error instanceof DuolaneError ? `${error.code}: ${error.message}` : error);
  process.exitCode = 1;
}
const tickets = board.list().map(({ id, title }) => `${id} ${title}`);
console.log(`\nOn the board: ${tickets.join(', ')}`);
