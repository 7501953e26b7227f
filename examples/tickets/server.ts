import { createHash } from 'node:crypto';
import { createSdkMcpServer, type SdkMcpServer, tool, type ToolContext } from 'duolane/mcp';
import { z } from 'zod';
import type { Board } from './board.ts';
import { readTicket, type Ticket, TicketDraft } from './ticket.ts';

type Answer = Awaited<ReturnType<ToolContext['ask']>>;

/** The content of a decision: changed fields of the ticket, or the reason of a rejection. */
const Edit = TicketDraft.partial();
const { $schema: _, ...draftSchema } = z.toJSONSchema(TicketDraft);

/**
 * The server `cci`, registered once: the same object serves the agent CLI, MCP clients and A2A.
 *
 * A ticket is staged for a person. Nothing waits in memory for the decision: the call ends with a
 * question, and is repeated with the answer, a second later or after a restart. So the handler must
 * ask the same question each time, and the board must accept the same key twice.
 */
export function ticketServer(board: Board): SdkMcpServer {
  const createTicket = tool(
    'create_ticket',
    'Create a ticket on the project board',
    TicketDraft,
    async (draft, { id, ask }) => {
      const proposed = readTicket(draft);
      let message = `Create this ${proposed.kind}? ${proposed.title}`;
      for (let round = 1; ; round += 1) {
        const answer = await ask({
          id: round === 1 ? 'review' : `review-${round}`,
          kind: 'approval',
          message,
          schema: draftSchema,
          data: proposed,
        });
        if (answer.action !== 'accept') return rejection(proposed, answer);
        const reviewed = edited(proposed, answer.content);
        if (typeof reviewed === 'string') {
          message = `${reviewed}. Please decide again: ${proposed.title}`;
          continue;
        }
        const { id: number } = board.create(keyOf(id, proposed), reviewed);
        return `Ticket '${reviewed.title}' created successfully (ID: ${number})`;
      }
    },
    { annotations: { destructiveHint: false, idempotentHint: false, openWorldHint: false } },
  );
  return createSdkMcpServer({ name: 'cci', version: '1.0.0', tools: [createTicket] });
}

/**
 * A key of the call id and the proposal: some models number their calls from 0 in each
 * conversation.
 */
const keyOf = (id: string, proposed: Ticket): string =>
  createHash('sha256')
    .update(JSON.stringify([id, proposed]))
    .digest('hex');

/** The ticket with the changes of the reviewer, or a text that says why they are invalid. */
function edited(proposed: Ticket, content: unknown): Ticket | string {
  const edit = Edit.safeParse(content ?? {});
  if (!edit.success) return 'An edit may have title, description and kind, each as text';
  const { title, description, kind } = edit.data;
  try {
    return readTicket({
      title: title ?? proposed.title,
      description: description ?? proposed.description,
      kind: kind ?? proposed.kind,
    });
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/**
 * The result of a rejection, which is not an error of the tool: the model gets the decision as
 * text.
 */
function rejection({ title }: Ticket, { action, content }: Answer): string {
  const what =
    action === 'decline'
      ? `The reviewer rejected the ticket '${title}'.`
      : `The reviewer closed the review of '${title}' without a decision.`;
  const said = typeof content === 'string' ? content : reasonIn(content);
  const why = said === undefined || said.trim() === '' ? '' : ` Reason: ${said.trim()}.`;
  return `${what}${why} It was not created; do not create it again unless the user asks for it.`;
}

const reasonIn = (content: unknown): string | undefined =>
  typeof content === 'object' && content !== null && 'reason' in content
    ? String(content.reason)
    : undefined;
