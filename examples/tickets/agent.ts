import { cli } from 'duolane/adapters';
import type { Agent } from 'duolane/event';
import type { ServeOptions } from 'duolane/serve';
import { openBoard } from './board.ts';
import { ticketServer } from './server.ts';
import { sessionOptions } from './session.ts';
import { argumentsIn, toolSkill } from './skill.ts';

const board = openBoard(process.env['TICKETS_FILE'] ?? '.duolane/tickets.sqlite');
const cci = ticketServer(board);

const conversation = cli(sessionOptions(cci));
const skill = toolSkill(cci.instance, 'create_ticket');

/** Text goes to the model, which calls the tool; a ticket as data goes directly to the tool. */
const agent: Agent = Object.assign(
  ((turn, ctx) =>
    argumentsIn(turn) === undefined ? conversation(turn, ctx) : skill(turn, ctx)) satisfies Agent,
  { continues: true, resumable: true },
);
export default agent;

const examples = [
  "bug: Fix login bug. Users can't log in on mobile",
  'Add dark mode. Many users work at night\nThe export crashes on empty tables',
  'enhancement: Faster search. It takes two seconds',
];

export const options: ServeOptions = {
  card: {
    name: 'Tickets',
    description:
      'Files tickets on a project board. A person approves, edits or rejects each one before it is created.',
    skills: [
      {
        id: 'create_ticket',
        name: 'Create a ticket',
        description: `${cci.instance.get('create_ticket')?.description ?? ''}, after a person's review. Send text, or a data part with title, description and kind (bug, feature or task).`,
        tags: ['tickets', 'human-in-the-loop'],
        examples,
      },
    ],
    inputModes: ['text/plain', 'application/json'],
    outputModes: ['text/plain'],
  },
  tools: cci.instance,
  form: { examples },
  resources: [board],
};
