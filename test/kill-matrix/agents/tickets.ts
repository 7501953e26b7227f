import { join } from 'node:path';
import { cli } from '../../../src/adapters/cli-agent.ts';
import type { MatrixAgent } from '../matrix-agent.ts';
import { sampleReply, useScriptedModel } from '../sample-model.ts';

// The sample tickets: a person reviews three tickets. The board is a system outside of the log.

const TEXT = `bug: Fix login bug. Users can't log in on mobile
feature: Add dark mode. Many users work at night
task: Write the release notes. They are due on Friday`;

const agent: MatrixAgent = {
  cli: true,
  async sample() {
    const { default: clerk } = await import('../../../examples/tickets/model.ts');
    return { text: TEXT, reply: sampleReply(clerk), effects: 3 };
  },
  async build(scene) {
    useScriptedModel(scene);
    const { openBoard } = await import('../../../examples/tickets/board.ts');
    const { ticketServer } = await import('../../../examples/tickets/server.ts');
    const { sessionOptions } = await import('../../../examples/tickets/session.ts');
    const board = openBoard(join(scene.own, '..', 'tickets.sqlite'));
    const create = board.create.bind(board);
    const counted: typeof create = (key, ticket) => {
      const stored = create(key, ticket);
      scene.onEffect(ticket.title);
      return stored;
    };
    return cli(sessionOptions(ticketServer(Object.assign(board, { create: counted }))));
  },
};

export default agent;
