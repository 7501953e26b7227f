import { DuolaneError } from 'duolane';
import { z } from 'zod';

export const KINDS = ['bug', 'feature', 'task'] as const;

export interface Ticket {
  readonly title: string;
  readonly description: string;
  readonly kind: (typeof KINDS)[number];
}

/**
 * The arguments of `create_ticket` for the model and the form of the reviewer. The schema shows the
 * kind as an enum, and `readTicket` checks it, so that the error message is ours.
 */
export const TicketDraft: z.ZodObject<
  { title: z.ZodString; description: z.ZodString; kind: z.ZodString },
  z.core.$strict
> = z.strictObject({
  title: z.string().describe('Ticket title'),
  description: z.string().describe('Ticket description'),
  kind: z.string().meta({ enum: [...KINDS] }),
});

const MAX_TITLE = 200;
const MAX_DESCRIPTION = 20_000;

/**
 * Makes a ticket of a draft; throws `invalid` with a message that a model or a reviewer can act on.
 */
export function readTicket({ title, description, kind }: z.infer<typeof TicketDraft>): Ticket {
  const known = KINDS.find((each) => each === kind);
  if (!known)
    throw new DuolaneError(
      'invalid',
      `Invalid ticket kind '${kind}'. Must be one of: ${KINDS.join(', ')}`,
    );
  const ticket = { title: title.trim(), description: description.trim(), kind: known };
  if (ticket.title === '') throw new DuolaneError('invalid', 'A ticket needs a title');
  if (ticket.title.length > MAX_TITLE)
    throw new DuolaneError('invalid', `A title has at most ${MAX_TITLE} characters`);
  if (ticket.description.length > MAX_DESCRIPTION)
    throw new DuolaneError('invalid', `A description has at most ${MAX_DESCRIPTION} characters`);
  return ticket;
}
